package cli

import (
	"context"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/dataplane/conditions"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// seen matches what keep says about a restart.
var seen = regexp.MustCompile(`^rdmactl: .*: trying again until you interrupt
rdmactl: rdmad at unix:///\S+ is back: nothing was seen from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d to \d{4}-\d\d-\d\d \d\d:\d\d:\d\d
`)

// TestStreamsContinueAfterARestart of rdmad, and say since when they saw nothing.
func TestStreamsContinueAfterARestart(t *testing.T) {
	for _, c := range []struct {
		args string
		line string // of each rdmad
	}{
		{"connections watch", "connection 1"},
		{"connections watch -o json", `"EXISTING"`},
		{"conditions watch", "upstream/nas"},
	} {
		addr := "unix://" + filepath.Join(t.TempDir(), "s")
		known := conditions.NewRegistry()
		known.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamAnswers})
		_, _, stop := controlAt(t, addr, known)
		v := watch(t, append(strings.Fields(c.args), "--addr", addr)...)
		for restarts := range 2 {
			if got := v.line(t); !strings.Contains(got, c.line) {
				t.Errorf("%s: after %d restarts: %s", c.args, restarts, got)
			}
			stop()
			_, _, stop = controlAt(t, addr, known)
		}
		if got := v.line(t); !strings.Contains(got, c.line) {
			t.Errorf("%s: at the end: %s", c.args, got)
		}
		v.cancel()
		if code := <-v.exit; code != 0 || !seen.MatchString(v.stderr.String()) {
			t.Errorf("%s: exit code %d, stderr %q", c.args, code, v.stderr.String())
		}
		stop()
	}
}

// TestWatchFailsWithoutAFirstAnswer: only a stream that had begun is continued.
func TestWatchFailsWithoutAFirstAnswer(t *testing.T) {
	for _, command := range []string{"connections watch", "conditions watch", "settings watch", "trace", "capture -w x.pcapng"} {
		v := watch(t, append(strings.Fields(command), "--addr", "unix://"+filepath.Join(t.TempDir(), "none"))...)
		if code := <-v.exit; code != 1 || strings.Contains(v.stderr.String(), "trying again") {
			t.Errorf("%s: exit code %d, stderr %q", command, code, v.stderr.String())
		}
		v.cancel()
	}
}

// etcdAway is an rdmad without etcd, except for some of the watches, by number from 0.
type etcdAway struct {
	rdmadv1.UnimplementedFleetServiceServer
	watches atomic.Int32
	there   []int32
}

func (e *etcdAway) WatchNodes(_ *rdmadv1.WatchNodesRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchNodesResponse]) error {
	if slices.Contains(e.there, e.watches.Add(1)-1) {
		if err := stream.Send(&rdmadv1.WatchNodesResponse{Type: rdmadv1.WatchNodesResponse_LISTED}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "etcd is away")
}

// TestNothingIsSeenWithoutEtcd: an rdmad that is there, but can't answer, is not back. Before a
// first answer, that is the end.
func TestNothingIsSeenWithoutEtcd(t *testing.T) {
	for _, c := range []struct {
		there        []int32
		again, backs int
		lines        int
	}{
		{nil, 0, 0, 0},
		{[]int32{0, 4, 5}, 3, 2, 3},
	} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		s, served := grpc.NewServer(), make(chan error, 1)
		rdmadv1.RegisterFleetServiceServer(s, &etcdAway{there: c.there})
		go func() { served <- s.Serve(l) }()
		v := watch(t, "fleet", "nodes", "watch", "--addr", "unix://"+l.Addr().String())
		for range c.lines {
			v.line(t)
		}
		if c.lines > 0 {
			v.cancel()
		}
		code := <-v.exit
		v.cancel()
		s.Stop()
		<-served
		got := v.stderr.String()
		// The interruption may come before the last stream is known to have ended.
		again, backs := strings.Count(got, "etcd is away: trying again"), strings.Count(got, "is back: nothing was seen")
		if (code == 0) != (c.lines > 0) || again < c.again-1 || again > c.again || backs != c.backs {
			t.Errorf("%v: exit code %d, stderr %s", c.there, code, got)
		}
	}
}

// TestInterruptedAsRdmadGoes: an interruption that comes as the stream ends is the end, and no
// error of the stream.
func TestInterruptedAsRdmadGoes(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var stderr strings.Builder
	a := &app{stderr: &stderr, socket: filepath.Join(t.TempDir(), "none"), retry: time.Hour}
	err := a.keep(ctx, func(_ *grpc.ClientConn, begun func()) error {
		begun()
		interrupt()
		return status.Error(codes.Unavailable, "rdmad is shutting down")
	})
	if !ended(ctx, err) || stderr.String() != "" {
		t.Errorf("%v, stderr %q", err, stderr.String())
	}
}
