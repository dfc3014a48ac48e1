package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestExplain(t *testing.T) {
	a := &app{addr: "here:1", timeout: 5 * time.Second}
	slow, err := status.New(codes.ResourceExhausted, "watcher fell behind").WithDetails(&errdetails.ErrorInfo{Reason: "ERROR_REASON_SLOW_READER"})
	if err != nil {
		t.Fatal(err)
	}
	unconfirmed := func(byFleet string) error {
		st, err := status.New(codes.FailedPrecondition, "revision 6 waits").WithDetails(&errdetails.ErrorInfo{
			Reason: "ERROR_REASON_UNCONFIRMED", Metadata: map[string]string{"revision": "6", "by_fleet": byFleet},
		})
		if err != nil {
			t.Fatal(err)
		}
		return st.Err()
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{unconfirmed("false"), "revision 6 waits (rdmactl settings confirm, or rdmactl settings rollback 5)"},
		{unconfirmed("true"), "revision 6 waits (rdmactl settings rollback 5)"},
		{status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`), "rdmad is not reachable at here:1: is it running? set --addr or RDMACTL_ADDR (connection refused)"},
		{status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: read tcp 127.0.0.1:2->127.0.0.1:1: read: connection reset by peer"`), "rdmad at here:1 ended the connection at once: was it stopped, or does it need TLS (--tls-cert, --tls-key and --tls-ca)?"},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), "rdmad at here:1 went away: was it stopped?"},
		{status.Error(codes.Unavailable, "rdmad is shutting down"), "rdmad is shutting down"},
		{status.Error(codes.Unavailable, "etcd: error reading from server: EOF; start etcd"), "etcd: error reading from server: EOF; start etcd"},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), "rdmad at here:1 did not answer within 5s: is it overloaded? set --timeout"},
		{status.Error(codes.Unimplemented, "unknown service rdmad.v1.X"), "rdmad at here:1 does not know this request: is it older than rdmactl? (unknown service rdmad.v1.X)"},
		{status.Error(codes.Internal, "internal error"), "rdmad at here:1 failed: internal error"},
		{status.Error(codes.Internal, "grpc: error while marshaling: string field contains invalid UTF-8"), "a file or an argument has bytes that are not text in UTF-8"},
		{status.Error(codes.NotFound, "no listener a; there are: nfs-service"), "no listener a; there are: nfs-service (rdmactl listeners list)"},
		{status.Error(codes.NotFound, "listener/nfs-service: there is no such listener"), "listener/nfs-service: there is no such listener (rdmactl listeners list)"},
		{status.Error(codes.NotFound, "connection 7: not found"), "connection 7: not found (rdmactl connections list)"},
		{status.Error(codes.NotFound, "no way back to revision 7: revisions 1 to 3 can be returned to"), "no way back to revision 7: revisions 1 to 3 can be returned to (rdmactl settings history)"},
		{status.Error(codes.NotFound, "policy listener-limits@7 is not in etcd"), "policy listener-limits@7 is not in etcd"},
		{status.Error(codes.NotFound, "the fleet has no node connector-1"), "the fleet has no node connector-1"},
		{slow.Err(), "rdmad ended the stream because rdmactl read it too slowly: run the command again"},
		{status.Error(codes.InvalidArgument, "a: b\nc\x1b[2J"), "a: b c[2J"},
		{errors.New("no terminal"), "no terminal"},
	} {
		if got := a.explain(c.err); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	a.allowed = 35 * time.Second // a drain's
	if got := a.explain(status.Error(codes.DeadlineExceeded, "late")); !strings.Contains(got, "within 35s") {
		t.Errorf("of a drain: %s", got)
	}
}

// TestResetWithTLS: a connection that ends without a word may be that of an rdmad that was killed.
func TestResetWithTLS(t *testing.T) {
	a := &app{addr: "here:1", timeout: 5 * time.Second}
	a.tls.Cert = "me.pem"
	const want = "rdmad at here:1 refused the certificate me.pem: is it from rdmad's control.tls.client_ca, and does it have a name? Or was rdmad stopped?"
	for _, where := range []string{"transport: authentication handshake failed", "error reading server preface"} {
		err := status.Error(codes.Unavailable, `connection error: desc = "`+where+`: read tcp 127.0.0.1:2->127.0.0.1:1: read: connection reset by peer"`)
		if got := a.explain(err); got != want {
			t.Errorf("%s: %s", where, got)
		}
	}
}

// TestArgument: errors name what the operator typed.
func TestArgument(t *testing.T) {
	for _, c := range []struct{ command, field, want string }{
		{"services update", "nfs.exports[0].clients[1].networks", "--exports[0].clients[1].networks"},
		{"services update", "nfs", "NAME"}, // of all exports together
		{"services unset", "nfs", "NAME"},
		{"services unset", "nfs.path", "--path"},
		{"services unset", "nfs.exports[0].path", "--exports[0].path"},
		{"services unset", "unset[0]", "FIELD"},
		{"services unset", "unset", ""},
		{"listeners unset", "limits.idle", "--idle"},
		{"connectors unset", "target", "--target"},
		{"limits unset", "limits.control.reserved", "--control-reserved"},
		{"limits unset", "unset[0]", "LIMIT"},
		{"limits set", "limits.max_memory", "--max-memory"},
		{"fleet apply", "plan.bake", "--bake"},
		{"fleet apply", "waves[0]", "--canary"},
		{"fleet apply", "plan.waves[1]", "--waves"},
		{"fleet rollback", "max_errors_per_second", "--max-errors"},
		{"fleet policies remove", "max_p99_ratio", "--max-p99"},
		{"settings set", "unset[0]", "KEY"},
		{"settings set", "settings.credits.max", "credits.max"},
	} {
		a := &app{}
		var err error
		if a.command, _, err = newRoot(a).Find(strings.Fields(c.command)); err != nil {
			t.Fatal(err)
		}
		if got := a.argument(c.field); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.command, c.field, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"inline.sendmax": "inline.send_max",
		"ddp.minchunk":   "ddp.min_chunk",
		"credit.max":     "credits.max",
		"nothing":        "",
		"":               "",
	} {
		if got := nearest(name, keyNames()); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
