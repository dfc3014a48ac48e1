package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// version2 is a change of extensions.v2 to off, on or required.
func version2(v2 string) *rdmadv1.Settings {
	on, required := v2 != "off", v2 == "required"
	return &rdmadv1.Settings{Extensions: &rdmadv1.ExtensionsSettings{V2: &on, V2Required: &required}}
}

// speaking is the same of a client of ours.
func speaking(v2 string) func(*rpcrdma.Settings) {
	return func(s *rpcrdma.Settings) {
		switch v2 {
		case "on":
			s.Extensions |= rpcrdma.ExtV2
		case "required":
			s.Extensions |= rpcrdma.ExtV2Only
		}
	}
}

// everySize makes echo calls that go inline and in chunks.
func everySize(t *testing.T, c *rpcrdma.Client) error {
	t.Helper()
	for _, n := range []int{0, 900, 3000, 5000, 100_000} {
		if err := c.Call(t.Context(), echoCall(make([]byte, n))); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	return nil
}

// The setting at the server against that of the client: what they speak, and
// how it is refused.
func TestVersion2Pairs(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	for _, pair := range []struct {
		server, client string
		version        uint32 // 0: none
	}{
		{"off", "off", 1}, {"off", "on", 1}, {"off", "required", 0},
		{"on", "off", 1}, {"on", "on", 2}, {"on", "required", 2},
		{"required", "off", 0}, {"required", "on", 2}, {"required", "required", 2},
	} {
		t.Run(pair.client+" to "+pair.server, func(t *testing.T) {
			if _, err := o.settings.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{Settings: version2(pair.server)}); err != nil {
				t.Fatal(err)
			}
			c := r.dialWith(p.addresses["echo"], speaking(pair.client), false)
			defer c.Close()
			err := everySize(t, c)
			if pair.version == 0 {
				var refused *rpcrdma.PeerError
				if !errors.Is(err, rpcrdma.ErrNoVersion) && (!errors.As(err, &refused) || refused.Code != rpcrdma1.ErrVers) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			up := listed(t, o, c)
			extensions := strings.Join(up.GetExtensions(), " ")
			if up.GetRpcVersion() != pair.version || strings.Contains(extensions, "v2") != (pair.version == 2) || up.GetErrors() != 0 { // a refused version is no error
				t.Errorf("version %d, extensions %q, %v errors", up.GetRpcVersion(), extensions, up.GetErrors())
			}
		})
	}
}

// listed is a client's connection as the control plane lists it.
func listed(t *testing.T, o *operator, c *rpcrdma.Client) *rdmadv1.Connection {
	t.Helper()
	return o.await(func(all []*rdmadv1.Connection) *rdmadv1.Connection {
		i := slices.IndexFunc(all, func(up *rdmadv1.Connection) bool { return up.GetPeer() == c.Info().Local.String() })
		if i < 0 {
			return nil
		}
		return all[i]
	})
}

// A change under load: the connection keeps its version and no call is lost;
// drained, the client comes again with the other version.
func TestVersion2ChangesWithReconnect(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	c := r.dialWith(p.addresses["echo"], speaking("on"), true)
	b := newBusy(t, c, 8)
	b.wait(50)
	for _, step := range []struct {
		set     string
		outcome rdmadv1.Effect_Outcome
		reason  string
		before  uint32 // the version that stays
		after   uint32 // and the next connection's
	}{
		{"on", rdmadv1.Effect_PENDING_RECONNECT, "chose version 1", 1, 2},
		{"required", rdmadv1.Effect_APPLIED, "", 2, 2},
		{"off", rdmadv1.Effect_PENDING_RECONNECT, "chose version 2", 2, 1},
	} {
		e := o.set(version2(step.set))
		if e.GetOutcome() != step.outcome || !strings.Contains(e.GetReason(), step.reason) {
			t.Errorf("%s: %v", step.set, e)
		}
		b.wait(50)
		up := o.connection()
		if up.GetRpcVersion() != step.before || up.GetErrors() != 0 {
			t.Errorf("%s: the connection is %v", step.set, up)
		}
		if _, err := o.connections.DrainConnection(t.Context(), &rdmadv1.DrainConnectionRequest{Id: up.GetId()}); err != nil {
			t.Fatal(err)
		}
		b.wait(50)
		if next := o.connection(); next.GetId() == up.GetId() || next.GetRpcVersion() != step.after || next.GetErrors() != 0 {
			t.Errorf("%s: the next connection is %v", step.set, next)
		}
	}
	b.stop()
}

// On a connection without a call the change counts at once, or can't count.
func TestVersion2BeforeTheFirstCall(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	c := r.dialWith(p.addresses["echo"], speaking("on"), false)
	o.apply(version2("on"))
	if err := everySize(t, c); err != nil || c.Info().RPCVersion != 2 || o.connection().GetRpcVersion() != 2 {
		t.Errorf("turned on before the first call: %v, version %d", err, c.Info().RPCVersion)
	}
	c.Close()
	small := uint32(1024)
	if _, err := o.settings.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{
		Inline: &rdmadv1.InlineSettings{ReceiveSize: &small}, Extensions: version2("off").GetExtensions(),
	}}); err != nil {
		t.Fatal(err)
	}
	next := r.dialWith(p.addresses["echo"], speaking("on"), false)
	up := listed(t, o, next)
	on := version2("on")
	res := have(o.settings.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{Settings: on}))(t)
	if !slices.ContainsFunc(res.GetEffects(), func(e *rdmadv1.Effect) bool {
		return e.GetConnectionId() == up.GetId() && e.GetOutcome() == rdmadv1.Effect_UNSUPPORTED && strings.Contains(e.GetReason(), "needs receives of 4096 bytes")
	}) {
		t.Errorf("with small receives: %v", res.GetEffects())
	}
	if err := everySize(t, next); err != nil || next.Info().RPCVersion != 1 {
		t.Errorf("with small receives: %v, version %d", err, next.Info().RPCVersion)
	}
}

// A connector offers its target what is set when a client comes.
func TestConnectorVersion2(t *testing.T) {
	r := newRig(t)
	server := r.start()
	dir := t.TempDir()
	gate := startHere(t, dir, fmt.Sprintf("settings: {extensions: {v2: on}}\nconnectors: [{name: out, listen: \"127.0.0.1:0\", provider: softiwarp, target: %q}]\n",
		server.addresses["echo"]))
	defer gate.end()
	o := r.operator(server)
	for _, step := range []struct {
		set     string
		version int
	}{{"on", 2}, {"off", 1}, {"required", 2}} {
		if _, err := o.settings.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{Settings: version2(step.set)}); err != nil {
			t.Fatal(err)
		}
		c := have(rpctcp.Dial(t.Context(), gate.data.Connectors()[0].Address.String(), rpctcp.ClientConfig{}))(t)
		args := xdr.AppendOpaque(nil, make([]byte, 3000))
		got, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcEcho, args, nil)
		if err != nil || !bytes.Equal(got, args) {
			t.Fatalf("%s: %d bytes, %v", step.set, len(got), err)
		}
		var versions []int
		for _, up := range gate.data.Connections() {
			if up.Listener == "out" {
				versions = append(versions, up.RPCVersion)
			}
		}
		if last := len(versions) - 1; last < 0 || versions[last] != step.version {
			t.Errorf("%s: connections of versions %v, want the last of %d", step.set, versions, step.version)
		}
		c.Close()
	}
	must(t, reconfigure(gate.daemon, gate.parse(""), time.Second))
}

// A trace shows the negotiation: an offer that is refused and made again in
// version 1, and one that is taken.
func TestVersion2Traced(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	w := o.wire()
	for _, step := range []struct{ set, client, want string }{
		{"off", "on", "IN RDMA2_MSG 2 CALL , OUT RDMA2_ERROR 2  ERR_VERS (1 to 1), IN RDMA_MSG 1  , OUT RDMA_MSG 1  "},
		{"on", "on", "IN RDMA2_MSG 2 CALL , OUT RDMA2_MSG 2 REPLY "},
		{"required", "off", "IN RDMA_MSG 1  , OUT RDMA_ERROR 1  ERR_VERS (2 to 2)"},
	} {
		if _, err := o.settings.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{Settings: version2(step.set)}); err != nil {
			t.Fatal(err)
		}
		c := r.dialWith(p.addresses["echo"], speaking(step.client), false)
		if err := c.Call(t.Context(), echoCall(make([]byte, 100))); (err != nil) != (step.client == "off") {
			t.Errorf("%s: %v", step.set, err)
		}
		var seen []string
		for range strings.Count(step.want, ", ") + 1 {
			h := w.next()
			e := h.GetHeader()
			seen = append(seen, fmt.Sprintf("%v %s %d %s %s", h.GetDirection(), e.GetProcedure(), e.GetVersion(), e.GetDirection(), e.GetError()))
		}
		if got := strings.Join(seen, ", "); got != step.want {
			t.Errorf("%s:\ngot  %s\nwant %s", step.set, got, step.want)
		}
		c.Close()
	}
}
