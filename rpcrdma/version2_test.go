package rpcrdma_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// speaking sets extensions.v2 to off, on or required.
func speaking(v2 string) func(*rpcrdma.Settings) {
	return func(s *rpcrdma.Settings) {
		s.Extensions &^= rpcrdma.ExtV2 | rpcrdma.ExtV2Only
		switch v2 {
		case "on":
			s.Extensions |= rpcrdma.ExtV2
		case "required":
			s.Extensions |= rpcrdma.ExtV2Only
		}
	}
}

// everyShape makes calls of every shape, inline and with chunks.
func everyShape(b *bed, c *rpcrdma.Client) error {
	for _, n := range []int{0, 1, 900, 1100, 3900, 4100, 9000, 300000} {
		if err := errors.Join(echo(b.ctx, c, n, 1), readBack(b.ctx, c, procRead, n, n, 2), writeOut(b.ctx, c, n, 3)); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	return nil
}

// TestVersion2: both ends have it on; 64 calls at once, of every shape.
func TestVersion2(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: speaking("on")})
		c, conn := b.dial(speaking("on"))
		must(t, everyShape(b, c))
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				if err := echo(b.ctx, c, 100*i, uint32(i)); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		ci, si := c.Info(), conn.Info()
		if ci.RPCVersion != 2 || si.RPCVersion != 2 || ci.InlineSend != 4096 || si.InlineSend != 4096 {
			t.Errorf("version %d and %d, sends %d and %d", ci.RPCVersion, si.RPCVersion, ci.InlineSend, si.InlineSend)
		}
		if cs, ss := c.Stats(), conn.Stats(); cs.Errors+ss.Errors+cs.Dropped+ss.Dropped+ss.Ignored != 0 || cs.Replies != ss.Replies {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}

// TestVersionThreshold: with version 2 both ends take 4096 bytes, although both
// told 1024 at connect, and a lower inline.receive_size asks for no less.
func TestVersionThreshold(t *testing.T) {
	for _, v2 := range []string{"off", "on"} {
		t.Run(v2, func(t *testing.T) {
			small := func(s *rpcrdma.Settings) {
				speaking(v2)(s)
				s.InlineReceiveSize = 1024
			}
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: small})
			c, conn := b.dial(small)
			must(t, plain(b.ctx, c, procNull))
			before := c.Stats()
			must(t, echo(b.ctx, c, 3900, 1))
			after := c.Stats()
			chunks := after.ReadChunks + after.ReplyChunks - before.ReadChunks - before.ReplyChunks
			want, chunked := uint32(1024), uint64(2)
			if v2 == "on" {
				want, chunked = 4096, 0
			}
			if ci, si := c.Info(), conn.Info(); chunks != chunked || ci.InlineReceive != want || si.InlineReceive != want || ci.InlineSend != want || si.InlineSend != want {
				t.Errorf("%d chunks, %+v, %+v", chunks, ci, si)
			}
		})
	}
}

// TestVersionMatrix: every pair of settings, calls in both directions.
func TestVersionMatrix(t *testing.T) {
	versions := map[[2]string]int{
		{"off", "off"}: 1, {"off", "on"}: 1, {"on", "off"}: 1, {"on", "on"}: 2,
		{"on", "required"}: 2, {"required", "on"}: 2, {"required", "required"}: 2,
		{"off", "required"}: 0, {"required", "off"}: 0,
	}
	for pair, version := range versions {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: func(s *rpcrdma.Settings) {
				speaking(pair[1])(s)
				backward(4)(s)
			}})
			c, server := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, func(s *rpcrdma.Settings) {
				speaking(pair[0])(s)
				backward(4)(s)
			})
			err := echo(b.ctx, c, 2000, 1)
			if version == 0 {
				var refused *rpcrdma.PeerError
				if pair[1] == "required" && (!errors.As(err, &refused) || refused.Low != 2 || refused.High != 2) {
					t.Errorf("a client of version 1: %v", err)
				}
				if pair[0] == "required" && !errors.Is(err, rpcrdma.ErrNoVersion) {
					t.Errorf("a server of version 1: %v", err)
				}
				return
			}
			must(t, err)
			should(t, everyShape(b, c))
			server.OpenBackchannel()
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					if err := errors.Join(echo(b.ctx, c, 100*i, 1), echo(b.ctx, server, 100*i, 2)); err != nil {
						t.Errorf("%d: %v", i, err)
					}
				})
			}
			wg.Wait()
			if ci, si := c.Info(), server.Info(); ci.RPCVersion != version || si.RPCVersion != version || ci.Connects != 1 {
				t.Errorf("version %d and %d on %d connections, want %d", ci.RPCVersion, si.RPCVersion, ci.Connects, version)
			}
		})
	}
}

// TestBackchannelFirst: a server's calls wait until its client chose a version.
func TestBackchannelFirst(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: func(s *rpcrdma.Settings) {
		speaking("on")(s)
		backward(4)(s)
	}})
	c, server := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, func(s *rpcrdma.Settings) {
		speaking("on")(s)
		backward(4)(s)
	})
	server.OpenBackchannel()
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	if err := echo(over, server, 500, 1); !errors.Is(err, rpcrdma.ErrNoBackchannel) {
		t.Errorf("before the client called: %v", err)
	}
	waiting := make(chan error)
	go func() { waiting <- echo(b.ctx, server, 500, 1) }()
	for i := range 3 {
		if err := echo(b.ctx, c, 500, 2); err != nil {
			t.Errorf("round %d: %v", i, err)
		}
	}
	should(t, <-waiting)
	if i := c.Info(); i.RPCVersion != 2 || i.Backchannel.Credits == 0 {
		t.Errorf("%+v", i)
	}
}

// TestFirstMessage looks at the wire: the first message of version 2 has at
// most 1024 bytes and nothing goes with it until it is answered, in the version
// that is left.
func TestFirstMessage(t *testing.T) {
	for _, server := range []string{"on", "off"} {
		t.Run(server, func(t *testing.T) {
			look, tap := newLooker(t), new(rpcrdma.Tap)
			tap.Set(look)
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: speaking(server), tap: tap})
			c, _ := b.dial(speaking("on"))
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() { should(t, echo(b.ctx, c, 3000, uint32(i))) })
			}
			wg.Wait()
			look.mu.Lock()
			defer look.mu.Unlock()
			checkNegotiation(t, look.all, server == "on")
			if s := c.Stats(); s.Calls != 20 || s.Replies != 20 || s.Errors != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// checkNegotiation checks what a server saw of its client.
func checkNegotiation(t *testing.T, all []seen, agreed bool) {
	flying, good, refused := 0, false, false
	for i, s := range all {
		if s.op != verbs.OpSend && s.op != verbs.OpSendInvalidate {
			continue
		}
		p, ok := rpcrdma1.DecodePrefix(s.data)
		want := uint32(2)
		if refused {
			want = 1
		}
		switch {
		case !ok:
			t.Fatalf("message %d of %d bytes", i, len(s.data))
		case s.in && !good && (flying != 0 || p.Version == 2 && len(s.data) > 1024):
			t.Errorf("message %d: %d bytes of version %d while %d are in flight", i, len(s.data), p.Version, flying)
		case p.Version != want:
			t.Errorf("message %d is of version %d", i, p.Version)
		case s.in:
			flying++
			continue
		}
		flying--
		if p.Proc == rpcrdma1.Error {
			refused = true
		} else {
			good = true
		}
	}
	if !good || refused == agreed {
		t.Errorf("good answers %v, refused %v", good, refused)
	}
}

// TestVersionLive: the setting changes under a connection: it keeps its
// version, the next has the new one.
func TestVersionLive(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
	c, server := b.dial(speaking("on"))
	must(t, echo(b.ctx, c, 10, 1))
	for _, v2 := range []string{"on", "required", "off"} {
		s := rpcrdma.DefaultSettings()
		speaking(v2)(&s)
		server.SetSettings(&s)
		c.SetSettings(&s)
		if err := everyShape(b, c); err != nil || c.Info().RPCVersion != 1 || server.Info().RPCVersion != 1 {
			t.Errorf("%s: %v, version %d", v2, err, c.Info().RPCVersion)
		}
	}
	// Turned on between connecting and the first call.
	next, server := b.dial(speaking("on"))
	s := rpcrdma.DefaultSettings()
	speaking("on")(&s)
	server.SetSettings(&s)
	if err := everyShape(b, next); err != nil || next.Info().RPCVersion != 2 {
		t.Errorf("%v, version %d", err, next.Info().RPCVersion)
	}
	speaking("off")(&s)
	server.SetSettings(&s)
	next.SetSettings(&s)
	if err := everyShape(b, next); err != nil || next.Info().RPCVersion != 2 {
		t.Errorf("%v, version %d", err, next.Info().RPCVersion)
	}
}

// TestVersion2OnTheWire: answers of a server to a client written on bare verbs.
func TestVersion2OnTheWire(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: speaking("on")})
		r := b.dialRaw(wire.PrivateData{SendSize: 1024, ReceiveSize: 1024}.Append(nil))
		header := func(xid uint32, proc rpcrdma1.Proc) rpcrdma2.Header {
			return rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: 8, Proc: proc}}
		}
		call := func(h rpcrdma2.Header) []byte {
			return oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: h.XID, Program: 0x20000001, Version: 1, Procedure: procNull})
		}
		unknown := header(1, rpcrdma2.Optional)
		unknown.Option, unknown.Info = 99, []byte{1, 2, 3, 4, 5}
		bad := call(header(2, rpcrdma2.Msg))
		bad[19] = 2 // direction
		reply := header(3, rpcrdma2.Msg)
		reply.Direction = rpcrdma2.Reply
		refusal := header(4, rpcrdma2.Error)
		refusal.Err = rpcrdma2.ErrInvalOption
		for _, m := range []struct {
			msg  []byte
			xid  uint32 // of the answer; 0: none
			code rpcrdma1.ErrCode
		}{
			{unknown.Append(nil), 1, rpcrdma2.ErrInvalOption},
			{bad, 2, rpcrdma2.ErrBadHeader},
			{refusal.Append(nil), 0, 0},
			{oncrpc.AppendAcceptedReply(reply.Append(nil), 3), 0, 0},
			{call(header(5, rpcrdma2.Msg)), 5, 0},
			{message(rpcrdma1.Header{XID: 6}, procNull), 6, rpcrdma1.ErrVers},
			{call(header(7, rpcrdma2.Msg)), 7, 0},
		} {
			r.post(m.msg)
			if m.xid == 0 {
				continue
			}
			answer := r.receive()
			if m.code == rpcrdma1.ErrVers { // in the version of the call
				var h rpcrdma1.Header
				if _, err := h.Decode(answer); err != nil || h.XID != m.xid || h.Err != m.code || h.Low != 1 || h.High != 2 {
					t.Errorf("%x: %+v, %v", m.msg, h, err)
				}
				continue
			}
			var h rpcrdma2.Header
			if _, err := h.Decode(answer); err != nil || h.XID != m.xid || h.Err != m.code || (m.code == 0) != (h.Proc == rpcrdma2.Msg && h.Direction == rpcrdma2.Reply) {
				t.Errorf("%x: %+v, %v", m.msg, h, err)
			}
		}
		if s := (<-b.conns).Stats(); s.Errors != 3 || s.Ignored != 2 || s.Calls != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// lossyServer is a server on bare verbs that looks at the first message of each
// connection: version 2 gets what a test says, then the connection ends;
// version 1 is answered.
type lossyServer struct {
	t      *testing.T
	cm     rdmacm.Listener
	answer func(r *raw, h rpcrdma1.Prefix)
	seen   chan uint32 // versions of first messages
	over   sync.WaitGroup
}

func newLossyServer(t *testing.T, p rdmacm.Provider, answer func(*raw, rpcrdma1.Prefix)) *lossyServer {
	t.Helper()
	l := &lossyServer{t: t, answer: answer, seen: make(chan uint32, 100)}
	var err error
	if l.cm, err = p.Listen(t.Context(), bedHost+":0"); err != nil {
		t.Fatal(err)
	}
	l.over.Go(l.serve)
	return l
}

func (l *lossyServer) serve() {
	for {
		id, err := l.cm.GetRequest(l.t.Context())
		if err != nil {
			return
		}
		r := &raw{t: l.t, ctx: l.t.Context(), id: id}
		r.setUp()
		r.ok(id.Accept(r.ctx, rdmacm.ConnParam{PrivateData: kernelPrivateData}))
		l.over.Go(func() {
			defer r.close()
			for msg := r.receive(); msg != nil; msg = r.receive() {
				p, _ := rpcrdma1.DecodePrefix(msg)
				l.seen <- p.Version
				if p.Version == 2 {
					l.answer(r, p)
					return
				}
				h := rpcrdma1.Header{XID: p.XID, Version: 1, Credits: 8}
				r.post(oncrpc.AppendAcceptedReply(h.Append(nil), p.XID))
			}
		})
	}
}

func (l *lossyServer) versions(t *testing.T, want ...uint32) {
	t.Helper()
	for _, w := range want {
		if v := <-l.seen; v != w {
			t.Errorf("a message of version %d, want %d", v, w)
		}
	}
	if len(l.seen) > 0 {
		t.Errorf("%d messages more", len(l.seen))
	}
}

func (l *lossyServer) close() {
	l.cm.Close()
	l.over.Wait()
}

// TestVersionRemembered: a connection that is lost in the negotiation makes the
// next one begin with version 1, until that expires.
func TestVersionRemembered(t *testing.T) {
	for name, answer := range map[string]func(*raw, rpcrdma1.Prefix){
		"first message lost": func(*raw, rpcrdma1.Prefix) {},
		"lost after ERR_VERS": func(r *raw, p rpcrdma1.Prefix) {
			h := rpcrdma1.Header{XID: p.XID, Version: 2, Credits: 8, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrVers, Low: 1, High: 1}
			r.post(h.Append(nil))
		},
		"no answer": func(r *raw, _ rpcrdma1.Prefix) { r.receive() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := loopback.New(loopback.Config{})
				l := newLossyServer(t, p, answer)
				s := rpcrdma.DefaultSettings()
				speaking("on")(&s)
				memory := new(rpcrdma.VersionMemory)
				dial := func(again *rpcrdma.Reconnect) *rpcrdma.Client {
					c, err := rpcrdma.Dial(t.Context(), refereetest.Around(t, p), l.cm.Addr().String(), rpcrdma.DialConfig{
						Settings: &s, Reconnect: again, Versions: memory, Logger: slog.New(noErrors{slog.DiscardHandler, t}),
					})
					must(t, err)
					return c
				}
				null := func(c *rpcrdma.Client) error {
					call := newCall(procNull)
					return c.Call(t.Context(), &call)
				}
				c := dial(&rpcrdma.Reconnect{})
				if err := null(c); err != nil || c.Info().Connects != 2 || c.Info().RPCVersion != 1 {
					t.Errorf("%v, %+v", err, c.Info())
				}
				l.versions(t, 2, 1)
				c.Close()
				// Another client with the same memory, then without it.
				c = dial(nil)
				should(t, null(c))
				l.versions(t, 1)
				c.Close()
				time.Sleep(10 * time.Minute)
				c = dial(nil)
				if err := null(c); err == nil {
					t.Error("answered")
				} else if name == "no answer" && !errors.Is(err, rpcrdma.ErrNotAgreed) {
					t.Error(err)
				}
				l.versions(t, 2)
				c.Close()
				c = dial(nil)
				should(t, null(c))
				l.versions(t, 1)
				c.Close()
				// Required: nothing else is tried.
				speaking("required")(&s)
				c = dial(nil)
				if err := null(c); err == nil {
					t.Error("answered")
				}
				l.versions(t, 2)
				c.Close()
				l.close()
				should(t, p.Close())
				if n := p.Device().(verbs.LiveCounter).Live().Total(); n != 0 {
					t.Errorf("objects left: %+v", p.Device().(verbs.LiveCounter).Live())
				}
			})
		})
	}
}

// TestSlowFirstCall: a server that refuses version 2 may take its time with the
// call in version 1.
func TestSlowFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			time.Sleep(10 * time.Minute)
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: slow, timeout: 10 * time.Hour})
		c, _ := b.dial(speaking("on"))
		if err := echo(b.ctx, c, 10, 1); err != nil || c.Info().RPCVersion != 1 {
			t.Errorf("%v, version %d", err, c.Info().RPCVersion)
		}
	})
}

// TestCallsBeforeTheFirstAnswer: a call to the client keeps to the size announced at connect
// until the client's first call is answered, also where only version 2 is possible.
func TestCallsBeforeTheFirstAnswer(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) {
			speaking("required")(s)
			backward(2)(s)
		}})
		r := b.dialRaw(nil) // 1024 bytes
		conn := <-b.conns
		conn.OpenBackchannel()
		ctx, cancel := context.WithCancel(b.ctx)
		defer cancel()
		call := func() error {
			c := newCall(procEcho)
			c.Args = make([]byte, 2000)
			return conn.Call(ctx, &c)
		}
		if err := call(); !errors.Is(err, rpcrdma.ErrCallTooLong) {
			t.Errorf("before: %v", err)
		}
		first := rpcrdma2.Header{Header: rpcrdma1.Header{XID: 1, Version: 2, Credits: 4}}
		r.post(oncrpc.AppendCall(first.Append(nil), &oncrpc.Call{XID: 1, Program: 0x20000001, Version: 1}))
		r.receive()
		ended := make(chan error)
		go func() { ended <- call() }()
		var h rpcrdma2.Header
		msg := r.receive()
		if _, err := h.Decode(msg); err != nil || h.Direction != rpcrdma2.Call || len(msg) < 2000 {
			t.Errorf("after: %d bytes, %+v, %v", len(msg), h, err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("after: %v", err)
		}
	})
}

// TestGivenUpWhileRefused: a call that ends when its version was refused leaves nothing to
// the next call.
func TestGivenUpWhileRefused(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	s, tap := rpcrdma.DefaultSettings(), new(rpcrdma.Tap)
	speaking("on")(&s)
	tap.Set(onArrival(cancel))
	c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Settings: &s, Tap: tap})
	must(t, err)
	defer c.Close()
	if err := plain(ctx, c, procNull); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	must(t, plain(b.ctx, c, procNull))
	if n := c.Stats(); n.Calls != 2 || n.Replies != 1 {
		t.Errorf("%d calls, %d replies", n.Calls, n.Replies)
	}
}

// onArrival is an observer that runs when a message arrives.
type onArrival func()

func (f onArrival) Observe(o *rpcrdma.Operation) {
	if o.In {
		f()
	}
}
