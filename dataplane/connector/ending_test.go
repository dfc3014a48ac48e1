package connector

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
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
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
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

// TestManyClients: each has its own connection, and its own answers.
func TestManyClients(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newRig(t, p, echo.New(), Config{Connector: spec.Connector{MaxReply: 64 << 10}})
		var wg, up sync.WaitGroup
		const clients = 50
		up.Add(clients)
		for i := range clients {
			wg.Go(func() {
				c := r.dial(rpctcp.ClientConfig{})
				_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
				up.Done()
				if err != nil {
					t.Error(err)
					return
				}
				up.Wait()
				for n := range 5 {
					size := i*100 + n
					if got, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(size)); err != nil || !bytes.Equal(got, opaque(size)) {
						t.Errorf("client %d: %d bytes, %v", i, len(got), err)
					}
				}
			})
		}
		up.Wait()
		if n := len(r.outgoing()); n != clients {
			t.Errorf("%d connections", n)
		}
		wg.Wait()
	})
}

// TestSettings: settings change on connections that are up, and report their effects.
func TestSettings(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{})
	c := r.dial(rpctcp.ClientConfig{})
	call := func() {
		t.Helper()
		if got, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(2000)); err != nil || !bytes.Equal(got, opaque(2000)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	call()
	before := r.outgoing()[0]
	effects := r.applied(settings(func(s *rpcrdma.Settings) { s.InlineSendMax = 1024 }), live.InlineSendMax, live.CreditsPolicy)
	if len(effects) != 1 || effects[0].id != before.ID || effects[0].outcome != live.Unsupported {
		t.Errorf("effects %+v", effects)
	}
	call()
	after := r.outgoing()[0]
	if before.InlineSend != 4096 || after.InlineSend != 1024 || after.Stats.LongCalls != before.Stats.LongCalls+1 {
		t.Errorf("inline_send %d, then %d; %d long calls, then %d",
			before.InlineSend, after.InlineSend, before.Stats.LongCalls, after.Stats.LongCalls)
	}
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

// TestNoWindows: on a device without memory windows the target is not allowed to invalidate,
// and a setting that asks for that reports why.
func TestNoWindows(t *testing.T) {
	r := newRig(t, refereetest.Around(t, loopback.New(loopback.Config{DeviceName: "siw0", NoWindows: true})), echo.New(), Config{})
	c := r.dial(rpctcp.ClientConfig{})
	if _, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(2000)); err != nil {
		t.Fatal(err)
	}
	if out := r.outgoing()[0]; out.RemoteInvalidation {
		t.Error("it offered remote invalidation")
	}
	effects := r.applied(settings(func(*rpcrdma.Settings) {}), live.RemoteInvalidationAccept)
	const reason = "remote_invalidation.accept: device siw0 has no memory windows, and what it registers can't be invalidated"
	if len(effects) != 1 || effects[0].outcome != live.Unsupported || effects[0].reason != reason {
		t.Errorf("effects %+v", effects)
	}
}

// TestReplyTooLong: a target whose reply does not fit into what it was offered answers
// ERR_CHUNK.
func TestReplyTooLong(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{Connector: spec.Connector{MaxReply: 8192}})
	c := r.dial(rpctcp.ClientConfig{})
	_, err := echoCall(t.Context(), c, echo.ProcRead, xdr.AppendUint32(nil, 10000))
	if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != oncrpc.SystemErr {
		t.Errorf("%v", err)
	}
	r.log.Await(t, "call answered with SYSTEM_ERR", "ERR_CHUNK")
	if got, err := echoCall(t.Context(), c, echo.ProcRead, xdr.AppendUint32(nil, 8000)); err != nil || !bytes.Equal(got, opaque(8000)) {
		t.Errorf("afterwards: %d bytes, %v", len(got), err)
	}
}

// TestLyingTarget: a malformed reply of the target becomes SYSTEM_ERR for that call, and other
// calls continue.
func TestLyingTarget(t *testing.T) {
	lie := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		if c.Procedure == echo.ProcNull {
			return nil
		}
		buf, err := r.Mem.Alloc(ctx, 4096)
		if err != nil {
			return err
		}
		// As a READ of version 3, but for the data's place or length.
		r.Stream = xdr.AppendUint32(xdr.AppendUint32(r.Stream, 0), 0)
		r.Stream = xdr.AppendBool(xdr.AppendUint32(r.Stream, 4096), true)
		length := uint32(4096)
		switch c.Version {
		case 2:
			length = 100
		case 3:
			r.Stream = r.Stream[:len(r.Stream)-4]
		}
		r.Stream = xdr.AppendUint32(r.Stream, length)
		r.AppendItem(buf, 4096)
		return nil
	})
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var target oncrpc.Handler = handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
			how := *c
			how.Version = c.Cred.Flavor // says how to lie
			return lie(ctx, &how, r)
		})
		r := newRig(t, refereetest.Without(p), target, Config{})
		nc, records := r.raw()
		for how, want := range map[uint32]oncrpc.AcceptStat{0: oncrpc.Success, 2: oncrpc.SystemErr, 3: oncrpc.SystemErr} {
			msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: how, Program: 100003, Version: 3, Procedure: procRead, Cred: oncrpc.Auth{Flavor: how}})
			msg = xdr.AppendUint64(xdr.AppendString(msg, "handle"), 0)
			msg = xdr.AppendUint32(msg, 4096)
			if _, err := nc.Write(frame(msg)); err != nil {
				t.Fatal(err)
			}
			if _, err := records.Next(); err != nil {
				t.Fatal(err)
			}
			reply, err := records.Read(nil)
			if err != nil {
				t.Fatal(err)
			}
			if stat := oncrpc.AcceptStat(reply[23]); stat != want {
				t.Errorf("lie %d: %v", how, stat)
			}
		}
		if s := r.c.Stats(); s.Failed != 2 {
			t.Errorf("%+v", s)
		}
		r.log.Await(t, "call answered with SYSTEM_ERR", "procedure=6")
	})
}

// TestEmptyReads: a target that gives no write chunk to a READ without data, as Linux's does
// (svc_rdma_result_payload). The data of the next READ is then in an earlier chunk.
func TestEmptyReads(t *testing.T) {
	const read = 25
	data := opaque(5000)[4:]
	for name, lengths := range map[string][]int{
		"first": {0, 5000, 3}, "middle": {4999, 0, 5000}, "last": {4999, 5000, 0},
		"two": {0, 0, 5000}, "all": {0, 0, 0}, "none": {5000, 1, 4998},
	} {
		var want []byte // results
		target := handlerFunc(func(ctx context.Context, _ *oncrpc.Call, r *oncrpc.Reply) error {
			r.Stream = xdr.AppendUint32(xdr.AppendString(xdr.AppendUint32(r.Stream, 0), ""), uint32(len(lengths)))
			for _, n := range lengths {
				r.Stream = xdr.AppendBool(xdr.AppendUint32(xdr.AppendUint32(r.Stream, read), 0), true)
				r.Stream = xdr.AppendUint32(r.Stream, uint32(n))
				if n == 0 {
					continue
				}
				buf, err := r.Mem.Alloc(ctx, n)
				if err != nil {
					return err
				}
				copy(buf.Bytes()[:n], data)
				r.AppendItem(buf, n)
			}
			return nil
		})
		args := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendString(nil, ""), 1), uint32(len(lengths)))
		want = xdr.AppendUint32(xdr.AppendString(xdr.AppendUint32(nil, 0), ""), uint32(len(lengths)))
		for _, n := range lengths {
			args = append(xdr.AppendUint32(args, read), make([]byte, 16+8)...)
			args = xdr.AppendUint32(args, 5000)
			want = xdr.AppendBool(xdr.AppendUint32(xdr.AppendUint32(want, read), 0), true)
			want = xdr.AppendOpaque(want, data[:n])
		}
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				c := newRig(t, refereetest.Without(p), target, Config{}).dial(rpctcp.ClientConfig{})
				if got, err := c.Call(t.Context(), nfsProgram, 4, 1, args, nil); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
				}
			})
		})
	}
}

// TestTotals: those of the data plane have the calls of connectors, ended connections included.
func TestTotals(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{})
	c := r.dial(rpctcp.ClientConfig{})
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
		t.Fatal(err)
	}
	// The connector's connection, and the target's.
	if connections, sum := r.d.Totals(); connections != 2 || sum.Calls != 2 {
		t.Errorf("%d connections, %+v", connections, sum)
	}
	c.Close()
	r.until(func() bool { connections, _ := r.d.Totals(); return connections == 0 })
	if _, sum := r.d.Totals(); sum.Calls != 2 {
		t.Errorf("afterwards %+v", sum)
	}
}
