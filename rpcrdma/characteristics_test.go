package rpcrdma_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// sizeWatch looks at the bytes of one end: no Send of it is longer than what the
// peer told last, or than what it asked the peer for; it tells of smaller receives
// only in answer to a REQUEST; its first message is an INIT of at most 1024 bytes.
type sizeWatch struct {
	t    *testing.T
	name string

	mu    sync.Mutex
	grown sync.Cond
	// The peer's receives, as told and as asked for (0: not); ours, as told and as
	// the peer asked for.
	peer, asked, own, wanted uint32
	sends, longest           int
}

func newSizeWatch(t *testing.T, name string) *sizeWatch {
	w := &sizeWatch{t: t, name: name, peer: 4096, own: 4096}
	w.grown.L = &w.mu
	return w
}

func (w *sizeWatch) tap() *rpcrdma.Tap {
	tap := new(rpcrdma.Tap)
	tap.Set(w)
	return tap
}

func (w *sizeWatch) Observe(o *rpcrdma.Operation) {
	if o.Op != verbs.OpSend && o.Op != verbs.OpSendInvalidate {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.grown.Broadcast()
	var msg []byte
	for _, d := range o.Data {
		msg = append(msg, d...)
	}
	var h rpcrdma2.Header
	if _, err := h.Decode(msg); err != nil {
		return // of version 1
	}
	if !o.In {
		w.sent(&h, len(msg))
	}
	if h.Proc == rpcrdma2.Optional {
		w.operation(&h, o.In)
	}
}

func (w *sizeWatch) sent(h *rpcrdma2.Header, n int) {
	limit := w.peer
	if w.asked != 0 {
		limit = min(limit, w.asked)
	}
	if w.sends++; w.sends == 1 && (h.Option != rpcrdma2.OptInit || n > 1024) {
		w.t.Errorf("%s begins with operation %d of %d bytes", w.name, h.Option, n)
	}
	if w.longest = max(w.longest, n); n > int(limit) {
		w.t.Errorf("%s sends %d bytes, the peer takes %d", w.name, n, limit)
	}
}

// operation follows what is told.
func (w *sizeWatch) operation(h *rpcrdma2.Header, in bool) {
	told := &w.own
	if in {
		told = &w.peer
	}
	switch h.Option {
	case rpcrdma2.OptInit:
		var body rpcrdma2.Init
		w.decode(&body, h)
		*told, _ = sizeIn(body.Start, *told)
	case rpcrdma2.OptUpdate:
		var body rpcrdma2.Update
		w.decode(&body, h)
		n, _ := sizeIn(body.Now, *told)
		if n < *told {
			w.t.Errorf("%s: receives of %d bytes become %d unasked", w.name, *told, n)
		}
		*told = n
	case rpcrdma2.OptRequest:
		var body rpcrdma2.Request
		w.decode(&body, h)
		if n, some := sizeIn(body.Want, 0); some && in {
			w.wanted = n
		} else if some {
			w.asked = n
		}
	case rpcrdma2.OptRespond:
		var body rpcrdma2.Respond
		w.decode(&body, h)
		asked := &w.wanted
		if in {
			asked = &w.asked
		}
		if *asked != 0 {
			if *told, _ = sizeIn(body.Other, *told); body.Done.Has(0) {
				*told = *asked
			}
			*asked = 0
		}
	}
}

func (w *sizeWatch) decode(body rpcrdma2.Body, h *rpcrdma2.Header) {
	if err := body.Decode(h.Info); err != nil {
		w.t.Errorf("%s: operation %d: %v", w.name, h.Option, err)
	}
}

// sizeIn is the receive size in a set, or else otherwise.
func sizeIn(set rpcrdma2.Set, otherwise uint32) (n uint32, some bool) {
	v := rpcrdma2.Values{ReceiveSize: otherwise}
	for _, c := range set {
		if c.ID == rpcrdma2.CharReceiveSize {
			_, err := v.Set(c)
			some = err == nil
		}
	}
	return v.ReceiveSize, some
}

// wait waits until the wire has shown something.
func (w *sizeWatch) wait(f func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !f() {
		w.grown.Wait()
	}
}

func (w *sizeWatch) toldOfPeer(n uint32) func() bool {
	return func() bool { return w.peer == n && w.asked == 0 }
}

// sized sets the receive and send sizes, with characteristics on.
func sized(receive, send uint32) func(*rpcrdma.Settings) {
	return func(s *rpcrdma.Settings) {
		speakingWith(rpcrdma.ExtCharacteristics)(s)
		s.InlineReceiveSize, s.InlineSendMax = receive, send
	}
}

func settingsOf(change func(*rpcrdma.Settings)) *rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	change(&s)
	return &s
}

// watched is a connection whose ends are looked at.
type watched struct {
	*bed
	client                   *rpcrdma.Client
	server                   *rpcrdma.Conn
	clientWatch, serverWatch *sizeWatch
}

func newWatched(t *testing.T, p rdmacm.Provider, change func(*rpcrdma.Settings)) *watched {
	w := &watched{clientWatch: newSizeWatch(t, "client"), serverWatch: newSizeWatch(t, "server")}
	w.bed = newBed(t, p, bedConfig{settings: change, tap: w.serverWatch.tap()})
	w.client, w.server = w.dialServing(rpcrdma.DialConfig{Handler: service{}, Tap: w.clientWatch.tap()}, change)
	return w
}

// TestReceiveSizeIdle: on a connection without calls the receives of either end
// become larger, and smaller again, and the other end knows.
func TestReceiveSizeIdle(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		w := newWatched(t, p, sized(4096, 65536))
		for _, n := range []uint32{16384, 65536, 8192, 4096, 12288, 4096} {
			w.client.SetSettings(settingsOf(sized(n, 65536)))
			w.serverWatch.wait(w.serverWatch.toldOfPeer(n))
			w.server.SetSettings(settingsOf(sized(n, 65536)))
			w.clientWatch.wait(w.clientWatch.toldOfPeer(n))
			must(t, errors.Join(echo(w.ctx, w.client, 3900, 1), echo(w.ctx, w.client, 15000, 2)))
			ci, si := w.client.Info(), w.server.Info()
			if ci.InlineSend != n || si.InlineSend != n || ci.InlineReceive != n || si.InlineReceive != n {
				t.Errorf("with %d bytes: %+v\n%+v", n, ci, si)
			}
		}
	})
}

// TestReceiveSizeUnderLoad: 64 calls at once, and calls in the reverse direction,
// while both ends change the size of their receives and Sends all the time: every
// call succeeds on the one connection, and by the bytes on the wire no Send is
// longer than what its receiver told.
func TestReceiveSizeUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) { sizesUnderLoad(t, p, 0) })
}

// TestReceiveSizeWithTransmissions is the same with all extensions of version 2 on:
// calls and replies of several Sends, and items placed by them.
func TestReceiveSizeWithTransmissions(t *testing.T) {
	sizesUnderLoad(t, newSoftiwarp(t), rpcrdma.ExtXmit|rpcrdma.ExtContinuation|rpcrdma.ExtSendDDP)
}

func sizesUnderLoad(t *testing.T, p rdmacm.Provider, ext rpcrdma.Extensions) {
	sized := func(receive, send uint32) func(*rpcrdma.Settings) {
		return func(s *rpcrdma.Settings) {
			sized(receive, send)(s)
			s.Extensions |= ext
		}
	}
	w := newWatched(t, p, sized(4096, 65536))
	w.server.OpenBackchannel()
	var calls sync.WaitGroup
	stop := make(chan struct{})
	run := func(f func(i int) error) {
		calls.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	lengths := []int{0, 900, 3000, 4000, 7000, 11000, 15000, 40000}
	for k := range 62 {
		run(func(i int) error { return echo(w.ctx, w.client, lengths[(i+k)%len(lengths)], uint32(k)) })
	}
	run(func(i int) error { return readBack(w.ctx, w.client, procRead, 10000, 10000, 2) })
	run(func(i int) error { return writeOut(w.ctx, w.client, 10000, 3) })
	run(func(i int) error { return echo(w.ctx, w.server, 100*(i%30), 4) })
	for i, n := range []uint32{16384, 4096, 65536, 8192, 12288, 4096, 32768, 4096} {
		client, server := settingsOf(sized(n, 65536)), settingsOf(sized(n+4096*uint32(i%2), 65536))
		w.client.SetSettings(client)
		w.server.SetSettings(server)
		w.clientWatch.wait(w.clientWatch.toldOfPeer(server.InlineReceiveSize))
		w.serverWatch.wait(w.serverWatch.toldOfPeer(client.InlineReceiveSize))
	}
	close(stop)
	calls.Wait()
	if i := w.client.Info(); i.Connects != 1 || !i.Characteristics.Spoken {
		t.Errorf("%+v", i)
	}
	if cs, ss := w.client.Stats(), w.server.Stats(); cs.Errors+ss.Errors+cs.BadReplies+ss.RepliesTooLong != 0 {
		t.Errorf("%+v\n%+v", cs, ss)
	}
	for _, v := range []*sizeWatch{w.clientWatch, w.serverWatch} {
		if v.longest <= 4096 {
			t.Errorf("%s: no Send was longer than %d bytes", v.name, v.longest)
		}
	}
}

// TestInvalidationLive: the client says under the connection whether its STags
// may be invalidated.
func TestInvalidationLive(t *testing.T) {
	w := newWatched(t, loopback.New(loopback.Config{}), sized(4096, 65536))
	for _, accept := range []bool{true, false, true} {
		s := settingsOf(sized(4096, 4096))
		s.RemoteInvalidationAccept = accept
		w.client.SetSettings(s)
		w.until(func() bool { return w.server.Info().Characteristics.Peer.Invalidation == accept })
		sends := w.server.Stats().SendsWithInvalidate
		must(t, writeOut(w.ctx, w.client, 30000, 1))
		if did := w.server.Stats().SendsWithInvalidate != sends; did != accept || w.server.Info().RemoteInvalidation != accept {
			t.Errorf("accept %v: invalidated %v", accept, did)
		}
	}
}

// until makes calls until something is so.
func (w *watched) until(f func() bool) {
	w.t.Helper()
	for !f() {
		must(w.t, echo(w.ctx, w.client, 0, 1))
	}
}

// TestBackwardLive: the client tells whether it takes calls of its server.
func TestBackwardLive(t *testing.T) {
	w := newWatched(t, loopback.New(loopback.Config{}), sized(4096, 65536))
	w.server.OpenBackchannel()
	for _, on := range []bool{true, false, true, false} {
		s := settingsOf(sized(4096, 4096))
		if !on {
			s.Extensions &^= rpcrdma.ExtBackchannel
		}
		w.client.SetSettings(s)
		w.until(func() bool { return (w.server.Info().Characteristics.Peer.Backward != rpcrdma2.BackwardNone) == on })
		err := echo(w.ctx, w.server, 100, 1)
		if (on && err != nil) || (!on && !errors.Is(err, rpcrdma.ErrNoBackchannel)) {
			t.Errorf("calls of the server %v: %v", on, err)
		}
	}
}

// TestCharacteristicsTurnedOn: on a connection of version 2 that is up, by one
// end after the other, in either order. A client that asks a server which has
// them off learns so, and asks no more.
func TestCharacteristicsTurnedOn(t *testing.T) {
	for _, serverFirst := range []bool{true, false} {
		t.Run(fmt.Sprint(serverFirst), func(t *testing.T) {
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: speaking("on")})
			c, server := b.dial(speaking("on"))
			on := settingsOf(sized(16384, 16384))
			turn := []func(){func() { server.SetSettings(on) }, func() { c.SetSettings(on) }}
			if !serverFirst {
				slices.Reverse(turn)
			}
			must(t, echo(b.ctx, c, 10, 1))
			for _, f := range turn {
				f()
				for range 4 { // behind what is told
					must(t, echo(b.ctx, c, 15000, 1))
				}
			}
			w := watched{bed: b, client: c}
			w.until(func() bool { return !serverFirst || c.Info().InlineReceive == 16384 })
			ci, si := c.Info().Characteristics, server.Info().Characteristics
			if ci.Spoken != serverFirst || si.Spoken != serverFirst || ci.Lacks == serverFirst {
				t.Errorf("%+v\n%+v", ci, si)
			}
			if s := server.Stats(); (s.Errors == 0) != serverFirst || s.Errors > 1 {
				t.Errorf("%d errors", s.Errors)
			}
		})
	}
}

// TestReceivesStayForReplies: the receives of a server become no smaller while its client may
// still answer a call by the sizes of the connect, because it has got characteristics since.
func TestReceivesStayForReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := func(s *rpcrdma.Settings) {
			sized(16384, 16384)(s)
			backward(4)(s)
		}
		client := func(s *rpcrdma.Settings) {
			server(s)
			s.Extensions &^= rpcrdma.ExtCharacteristics
		}
		let := make(chan struct{})
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: server})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			<-let
			return service{}.ServeRPC(ctx, c, r)
		})}, client)
		must(t, plain(b.ctx, c, procNull))
		conn.OpenBackchannel()
		answered := begin(func() error { return echo(b.ctx, conn, 8000, 1) })
		time.Sleep(time.Second) // until another goroutine polls than the one that serves the call
		c.SetSettings(settingsOf(server))
		synctest.Wait()
		smaller := settingsOf(server)
		smaller.InlineReceiveSize = 4096
		conn.SetSettings(smaller)
		synctest.Wait()
		if n := conn.Info().InlineReceive; n != 16384 {
			t.Errorf("receives of %d bytes before the reply", n)
		}
		close(let)
		should(t, <-answered)
		synctest.Wait()
		if n := conn.Info().InlineReceive; n != 4096 {
			t.Errorf("receives of %d bytes after the reply", n)
		}
	})
}
