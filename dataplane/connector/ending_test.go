package connector

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/rpctcp/rpctcptest"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// gate is a handler whose calls wait until it is opened, but for WRITE: it is
// for the first, which brings the credits for the others.
type gate struct{ entered, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) ServeRPC(ctx context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
	if c.Procedure == echo.ProcWrite {
		return nil
	}
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gone waits until the connector has disconnected a client.
func gone(t *testing.T, r io.Reader) {
	t.Helper()
	if _, err := io.Copy(io.Discard, r); errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// inFlight makes calls that wait at the target: one, and the others for a credit.
func inFlight(t *testing.T, nc net.Conn, g *gate) {
	t.Helper()
	for xid := range uint32(8) {
		if _, err := nc.Write(echoRecord(xid, echo.ProcNull, nil)); err != nil {
			t.Fatal(err)
		}
	}
	<-g.entered
}

// TestTargetDies: the client is disconnected in the middle of calls, and can
// come again.
func TestTargetDies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		g := newGate()
		r := newRig(t, p, g, Config{})
		nc, _ := r.raw()
		inFlight(t, nc, g)
		for _, c := range r.d.Connections() {
			if c.Listener == "in" {
				if err := r.d.CloseConnection(c.ID); err != nil {
					t.Error(err)
				}
			}
		}
		gone(t, nc)
		r.log.Await(t, "connection down", "listener=out")
		close(g.open)
		c := r.dial(rpctcp.ClientConfig{})
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestReasonOfTheEnd: a client whose connection ends with rdmad does not lose it because the connector
// was removed.
func TestReasonOfTheEnd(t *testing.T) {
	for reason, stop := range map[string]func(r *rig){"the connector was removed": func(*rig) {}, "rdmad is stopping": func(r *rig) { r.d.Stopping() }} {
		r := newRig(t, newLoopback(t), echo.New(), Config{})
		c := r.dial(rpctcp.ClientConfig{})
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Fatal(err)
		}
		stop(r)
		r.c.Shutdown(t.Context())
		ended := func(line string) bool {
			return strings.Contains(line, "listener=out") && strings.Contains(line, reason)
		}
		if lines := r.log.Lines("connection down"); !slices.ContainsFunc(lines, ended) {
			t.Errorf("%q, want %s", lines, reason)
		}
	}
}

// TestNoTarget: without a target, clients are accepted and then disconnected, with a line that
// says why.
func TestNoTarget(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newTargetless(t, p)
		r.connect(Config{Connector: spec.Connector{Target: "127.0.0.1:1", DialTimeout: 10 * time.Second}})
		nc, _ := r.raw()
		gone(t, nc)
		r.log.Await(t, "connection refused", "listener=out", "reason=", "127.0.0.1:1")
		if i := r.d.Connectors()[0]; i.Refusals[dataplane.RefusedHandshake] != 1 || i.Connections != 0 {
			t.Errorf("%+v", i)
		}
	})
}

// TestTargetRejects: the log has the reason that the target gives.
func TestTargetRejects(t *testing.T) {
	r := newTargetless(t, newLoopback(t))
	listener, err := r.d.PrepareListener(t.Context(), dataplane.ListenerConfig{
		Name: "in", Provider: r.p, Address: "127.0.0.1:0", Service: "test", Handler: echo.New(),
		Access: dataplane.Access{Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	r.connect(Config{Connector: spec.Connector{Target: listener.Info().Address.String()}})
	nc, _ := r.raw()
	gone(t, nc)
	r.log.Await(t, "connection refused", "listener=out", "rejected by peer: the address has no access")
}

// TestClientGoes: its connection to the target ends, with calls in flight.
func TestClientGoes(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		g := newGate()
		r := newRig(t, p, g, Config{RecordTimeout: 100 * time.Millisecond})
		nc, _ := r.raw()
		inFlight(t, nc, g)
		nc.Close()
		r.log.Await(t, "connection down", "listener=out")
		r.log.Await(t, "connection down", "listener=in")
	})
}

// TestDrain: the calls in flight are answered, then both sides go.
func TestDrain(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		g := newGate()
		r := newRig(t, p, g, Config{})
		c := r.dial(rpctcp.ClientConfig{})
		if _, err := echoCall(t.Context(), c, echo.ProcWrite, nil); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 8)
		for range cap(answered) {
			go func() {
				_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
				answered <- err
			}()
		}
		for range cap(answered) {
			<-g.entered
		}
		drained := make(chan error)
		id := r.outgoing()[0].ID
		go func() { drained <- r.d.DrainConnection(t.Context(), id) }()
		r.awaitState(dataplane.StateDraining)
		close(g.open)
		for range cap(answered) {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err == nil {
			t.Error("another call was answered")
		}
		r.log.Await(t, "connection down", "listener=out", "drained by an operator")
	})
}

// slowTarget takes a connection when it may, and answers its calls.
type slowTarget struct {
	oncrpc.Handler
	asked, may chan struct{}
}

func (s slowTarget) OpenConn(ctx context.Context, _ netip.AddrPort) (perconn.Handler, error) {
	s.asked <- struct{}{}
	select {
	case <-s.may:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestReload: another connector takes the place of one whose clients are about to mount: their
// connection to the target is being made, or new. They can make their calls.
func TestReload(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r, cfg := newTargetless(t, p), Config{}
		target := slowTarget{echo.New(), make(chan struct{}, 2), make(chan struct{}, 1)}
		r.listen(target, &cfg)
		r.connect(cfg)
		r.c.fresh = time.Hour
		target.may <- struct{}{}
		up := r.dial(rpctcp.ClientConfig{})
		r.until(func() bool { return len(r.outgoing()) == 1 })
		connecting := r.dial(rpctcp.ClientConfig{})
		<-target.asked
		<-target.asked
		old := r.c
		cfg.Listen = old.Addr().String()
		r.connectWith(tcpaddr.Yield(t.Context(), old.Sockets()), cfg)
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			old.Shutdown(t.Context())
		}()
		r.until(func() bool { return r.outgoing()[0].State == dataplane.StateDraining }) // it is new now, not when the other is up
		target.may <- struct{}{}
		for _, c := range []*rpctcp.Client{connecting, up} {
			for range 2 {
				if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
					t.Error(err)
				}
			}
			c.Close()
		}
		<-removed
	})
}

// TestStopWhileClientsConnect: a client that waits until others are connected is not too many when the
// connector stops.
func TestStopWhileClientsConnect(t *testing.T) {
	cfg := Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Limits: dataplane.Limits{Handshakes: 1}}}}
	r, target := newTargetless(t, newLoopback(t)), slowTarget{echo.New(), make(chan struct{}, 1), nil}
	r.listen(target, &cfg)
	r.connect(cfg)
	r.raw()
	<-target.asked
	r.raw()
	r.until(func() bool { return r.c.place.Places().Stats().Held == 2 })
	r.c.Shutdown(t.Context())
	if lines := r.log.Lines("connection refused", "listener=out"); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// TestRepliesBeforeDrain: a client gets its replies before a drain disconnects it, also if it reads
// late, has made more calls meanwhile, and the target calls it.
func TestRepliesBeforeDrain(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		called, answer, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}, 2)
		r, target := newCallerWith(t, p, Config{}, func(r *rig) {
			r.around = func(l net.Listener) net.Listener { return rpctcptest.EndingListener{Listener: l, Ended: ended} }
		}, handlerFunc(func(ctx context.Context, c *oncrpc.Call, reply *oncrpc.Reply) error {
			close(called)
			<-answer
			return echo.New().ServeRPC(ctx, c, reply)
		}))
		nc, records := r.raw()
		const size = 192 << 10
		if _, err := nc.Write(echoRecord(1, echo.ProcRead, xdr.AppendUint32(nil, size))); err != nil {
			t.Fatal(err)
		}
		<-called
		drained := make(chan error, 1)
		go func() { drained <- r.d.DrainConnection(t.Context(), r.outgoing()[0].ID) }()
		r.until(func() bool { return running("connector.(*session).readCalls") == 0 })
		if _, err := nc.Write(echoRecord(2, echo.ProcNull, nil)); err != nil {
			t.Fatal(err)
		}
		close(answer)
		<-ended
		if err := (<-target.conns).Call(t.Context(), newCall(1, nil)); err == nil {
			t.Error("a call of the target is answered")
		}
		if _, err := nc.Write(echoRecord(3, echo.ProcNull, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
		if got, err := records.Read(nil); err != nil || !bytes.HasSuffix(got, opaque(size)) {
			t.Errorf("a reply of %d bytes, or another one: %v", len(got), err)
		}
		nc.Close()
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// TestRepliesBeforeTargetGoes: a client gets the replies that came before its target disconnected,
// also if it reads late and has made more calls than the connector reads.
func TestRepliesBeforeTargetGoes(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		answer, ended := make(chan struct{}), make(chan struct{}, 2)
		var cfg Config
		r := newTargetless(t, p)
		r.listen(handlerFunc(func(ctx context.Context, c *oncrpc.Call, reply *oncrpc.Reply) error {
			switch c.Procedure {
			case echo.ProcNull: // it brings the credits for the others
				return nil
			case echo.ProcRead:
				<-answer
				return echo.New().ServeRPC(ctx, c, reply)
			}
			<-ctx.Done()
			return ctx.Err()
		}), &cfg)
		r.around = func(l net.Listener) net.Listener { return rpctcptest.EndingListener{Listener: l, Ended: ended} }
		r.connect(cfg)
		nc, records := r.raw()
		const size = 192 << 10
		if _, err := nc.Write(echoRecord(0, echo.ProcNull, nil)); err != nil {
			t.Fatal(err)
		}
		next := func() []byte {
			t.Helper()
			if _, err := records.Next(); err != nil {
				t.Fatal(err)
			}
			got, err := records.Read(nil)
			if err != nil {
				t.Error(err)
			}
			return got
		}
		next()
		calls := echoRecord(1, echo.ProcRead, xdr.AppendUint32(nil, size))
		for xid := range uint32(5000) {
			calls = append(calls, echoRecord(2+xid, echo.ProcEcho, opaque(1000))...)
		}
		go func() { _, _ = nc.Write(calls) }() // until the connection ends
		credits := int(rpcrdma.DefaultSettings().CreditsMax)
		r.until(func() bool { return r.outgoing()[0].InFlight == credits })
		close(answer)
		r.until(func() bool { return r.c.Stats().Replies == 2 })
		for _, c := range r.d.Connections() {
			if c.Listener == "in" {
				if err := r.d.CloseConnection(c.ID); err != nil {
					t.Error(err)
				}
			}
		}
		<-ended
		if got := next(); !bytes.HasSuffix(got, opaque(size)) {
			t.Errorf("a reply of %d bytes, or another one", len(got))
		}
		nc.Close()
		r.log.Await(t, "connection down", "listener=out")
	})
}

// awaitState waits until the connector's connection is in a state.
func (r *rig) awaitState(state string) {
	r.t.Helper()
	s := r.d.Subscribe(100)
	defer s.Close()
	for r.outgoing()[0].State != state {
		<-s.Events()
	}
}

// TestDrainIsCut: calls that take too long are cut, and nothing is left.
func TestDrainIsCut(t *testing.T) {
	g := newGate()
	r := newRig(t, newLoopback(t), g, Config{})
	nc, _ := r.raw()
	inFlight(t, nc, g)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if removed := r.c.Shutdown(ctx); removed.Cut != 1 {
		t.Errorf("%+v", removed)
	}
	gone(t, nc)
}

// soon is a context that ends soon, as it says.
type soon struct{ context.Context }

func (soon) Deadline() (time.Time, bool) { return time.Now(), true }

// TestFreshIsNotCut: a client that is new and has no calls does not use up the time of a drain.
func TestFreshIsNotCut(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{})
	r.c.fresh = time.Hour
	nc, _ := r.raw()
	r.until(func() bool { return len(r.outgoing()) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if removed := r.c.Shutdown(soon{ctx}); removed != (dataplane.Removed{Drained: 1}) {
		t.Errorf("%+v", removed)
	}
	gone(t, nc)
}

// TestClose: an operator closes a client's connection.
func TestClose(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newRig(t, p, echo.New(), Config{})
		c := r.dial(rpctcp.ClientConfig{})
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Fatal(err)
		}
		info := r.outgoing()[0]
		if info.Client.String() == "" || !info.Client.IsValid() || info.Service != r.c.cfg.Target || info.PeerPort.String() != r.c.cfg.Target {
			t.Errorf("%+v", info)
		}
		if err := r.d.CloseConnection(info.ID); err != nil {
			t.Error(err)
		}
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err == nil {
			t.Error("another call was answered")
		}
		r.log.Await(t, "connection down", "listener=out", "closed by an operator")
	})
}

// effect returns the control plane's effect for a fact.
type effect struct {
	id      string
	outcome live.Outcome
	reason  string
}

// applied are the effects of an update of keys on the connector's connections.
func (r *rig) applied(resolve dataplane.Resolver, keys ...live.Key) (out []effect) {
	u := dataplane.Update{Resolve: resolve, Among: dataplane.Among{Listener: "out"}}
	for _, k := range keys {
		u.Keys = u.Keys.With(k)
	}
	r.d.ApplySettings(u, func(f *dataplane.Fact) {
		o, reason := live.Fold(u.Keys, f.Now, f.AtConnect, f.Peer)
		out = append(out, effect{f.Conn.ID, o, reason})
	})
	return out
}
