package rpcrdma_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// serveOne accepts or refuses the next connection.
func serveOne(t *testing.T, l *rpcrdma.Listener, s rpcrdma.Settings) (*rpcrdma.Conn, error) {
	t.Helper()
	req, err := l.Accept(t.Context())
	must(t, err)
	return req.Accept(t.Context(), rpcrdma.ConnConfig{Handler: service{}, Settings: &s})
}

// TestNoMemoryForReceives: a connection for whose first receives there is no
// memory is refused. Those that are up go on, and their grants stay where
// they are.
func TestNoMemoryForReceives(t *testing.T) {
	p := loopback.New(loopback.Config{})
	l, err := rpcrdma.Listen(t.Context(), refereetest.Around(t, p), bedHost+":0", rpcrdma.ListenConfig{MemoryLimit: 1, Logger: slog.New(noErrors{slog.DiscardHandler, t})})
	must(t, err)
	defer func() {
		l.Close()
		should(t, p.Close())
	}()
	s := rpcrdma.DefaultSettings()
	s.InlineReceiveSize = 64 << 10
	dialed := make(chan error, 1)
	var c *rpcrdma.Client
	dial := func() {
		var err error
		var d *rpcrdma.Client
		if d, err = rpcrdma.Dial(t.Context(), refereetest.Around(t, p), l.Addr().String(), rpcrdma.DialConfig{}); err == nil {
			c = d
		}
		dialed <- err
	}
	go dial()
	conn, err := serveOne(t, l, s)
	must(t, err)
	must(t, <-dialed)
	first := c
	must(t, echo(t.Context(), first, 1, 1)) // brings its receives
	// The first connection has left the least receives for another one.
	go dial()
	second, err := serveOne(t, l, s)
	must(t, errors.Join(err, <-dialed))
	other := c
	go dial()
	if conn, err := serveOne(t, l, s); !errors.Is(err, transport.ErrNoMemory) || !strings.Contains(err.Error(), "2 connections hold") {
		t.Errorf("%v, %v", conn, err)
	}
	if err := <-dialed; err == nil {
		t.Error("connected")
	}

	// There is no memory for 64 receives of this size.
	for i, n := range []int{0, 100, 3000, 5000, 60000, 1 << 20} {
		for _, err := range []error{
			echo(t.Context(), first, min(n, 60000), 1),
			readBack(t.Context(), first, procHeap, n, n, 2),
		} {
			if err != nil {
				t.Errorf("%d: %d bytes: %v", i, n, err)
			}
		}
	}
	if got := conn.Info().CreditsGranted; got < 8 || got >= 64 {
		t.Errorf("granted %d", got)
	}
	if m := l.Memory(); m.Registered > m.Limit {
		t.Errorf("%+v", m)
	}
	first.Close()
	other.Close()
	<-conn.Done()
	<-second.Done()
	if m := l.Memory(); m.Taken != 0 {
		t.Errorf("%+v", m)
	}
}

// TestFetchesTakeTurns: more read chunks than one connection may hold at once.
func TestFetchesTakeTurns(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
	c, _ := b.dial(nil)
	must(t, echo(b.ctx, c, 1, 1))
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() { should(t, writeOut(b.ctx, c, 1<<20, uint32(i))) })
	}
	wg.Wait()
}

// TestHolderOfBuffersCalls: a call that needs little more than its buffers of Alloc does not wait for one
// that waits for these.
func TestHolderOfBuffersCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
		s := rpcrdma.DefaultSettings()
		s.InlineReceiveSize = 16 << 10
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Settings: &s, MemoryLimit: rpcrdma.MinMemoryLimit})
		must(t, err)
		defer c.Close()
		must(t, plain(b.ctx, c, procNull)) // brings its receives
		const size = 900000
		item, err := c.Alloc(b.ctx, size)
		must(t, err)
		other, err := c.Alloc(b.ctx, 1<<19)
		must(t, err)
		defer other.Release()
		large := begin(func() error { return echo(b.ctx, c, size, 1) })
		synctest.Wait()
		if len(large) > 0 {
			t.Fatalf("there is memory: %+v", c.Memory())
		}
		pattern(item.Bytes()[:size], 2)
		should(t, writeFrom(b.ctx, c, item, size, 2))
		item.Release()
		should(t, <-large)
	})
}

// TestAllocHasItsTurn: at a client whose calls hold all memory, an Alloc gets what one of them gives
// back. A call that came later waits, also if it has a buffer already.
func TestAllocHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: handlerFunc(func(_ context.Context, c *call, _ *reply) error {
			if c.Procedure != procNull {
				<-let
			}
			return nil
		})})
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{MemoryLimit: rpcrdma.MinMemoryLimit})
		must(t, err)
		defer c.Close()
		must(t, plain(b.ctx, c, procNull)) // brings credits
		item, err := c.Alloc(b.ctx, 4)
		must(t, err)
		defer item.Release()
		const size = 1 << 20
		over := make(chan error, 4)
		more := func() {
			go func() {
				call := newCall(procCrowd)
				call.Args = make([]byte, 4)
				call.Items = []oncrpc.ReplyItem{{Pos: 4, Len: 4, Buf: item}}
				call.Results = []rpcrdma.Result{{Buf: make(heapBuffer, size), Max: size}}
				over <- c.Call(b.ctx, &call)
			}()
			synctest.Wait()
		}
		for range 3 { // there is memory for these
			more()
		}
		got := make(chan oncrpc.Buffer, 1)
		go func() {
			buf, err := c.Alloc(b.ctx, size)
			should(t, err)
			got <- buf
		}()
		synctest.Wait()
		more()
		if len(got) > 0 || c.Stats().Calls != 1+3 {
			t.Fatalf("%+v", c.Memory())
		}
		let <- struct{}{}
		should(t, <-over)
		synctest.Wait()
		if len(got) == 0 {
			t.Error("the later call went first")
		}
		close(let)
		for range 3 {
			should(t, <-over)
		}
		(<-got).Release()
	})
}

func TestReject(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l, err := rpcrdma.Listen(t.Context(), refereetest.Around(t, p), bedHost+":0", rpcrdma.ListenConfig{})
		must(t, err)
		done := make(chan error, 1)
		go func() {
			req, err := l.Accept(t.Context())
			if err == nil && !req.RemoteAddr().IsValid() {
				t.Error("no address")
			}
			if err == nil {
				err = req.Reject(t.Context())
			}
			done <- err
		}()
		var rejected *rdmacm.RejectedError
		if c, err := rpcrdma.Dial(t.Context(), refereetest.Around(t, p), l.Addr().String(), rpcrdma.DialConfig{}); !errors.As(err, &rejected) {
			t.Errorf("%v, %v", c, err)
		}
		should(t, <-done)
		l.Close()
		if _, err := l.Accept(t.Context()); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
		should(t, p.Close())
	})
}

// TestImpossibleReplies: a service's mistakes are answered with SYSTEM_ERR.
func TestImpossibleReplies(t *testing.T) {
	h := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		buf := make(heapBuffer, 10)
		switch c.Procedure {
		case 1:
			r.AppendItem(buf, 11)
		case 2:
			r.AppendItem(buf, -1)
		case 3:
			r.Items = append(r.Items, oncrpc.ReplyItem{Pos: len(r.Stream) + 1, Buf: buf, Len: 1})
		case 4:
			r.AppendItem(buf, 1)
			r.Items = append(r.Items, oncrpc.ReplyItem{Pos: 1, Buf: buf, Len: 1})
		case 5:
			r.Stream = nil
		case 6:
			r.Stream = buf // without the header
		case 7:
			r.Stream = oncrpc.AppendAcceptedReply(nil, c.XID+1)
		}
		return nil
	})
	p := loopback.New(loopback.Config{})
	l, err := rpcrdma.Listen(t.Context(), refereetest.Around(t, p), bedHost+":0", rpcrdma.ListenConfig{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	accepted := make(chan *rpcrdma.Conn)
	go func() {
		req, err := l.Accept(t.Context())
		should(t, err)
		conn, err := req.Accept(t.Context(), rpcrdma.ConnConfig{Handler: h})
		should(t, err)
		accepted <- conn
	}()
	c, err := rpcrdma.Dial(t.Context(), refereetest.Around(t, p), l.Addr().String(), rpcrdma.DialConfig{})
	must(t, err)
	for proc := range uint32(8) {
		call := newCall(proc)
		call.MaxReply = 100
		err := c.Call(t.Context(), &call)
		e, ok := errors.AsType[*oncrpc.AcceptError](err)
		if (proc == 0) != (err == nil) || (proc > 0 && (!ok || e.Stat != oncrpc.SystemErr)) {
			t.Errorf("procedure %d: %v", proc, err)
		}
	}
	c.Close()
	(<-accepted).Close()
	l.Close()
}

// TestInvalidCalls: what contradicts itself is refused before anything is
// sent.
func TestInvalidCalls(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	c, conn := b.dial(nil)
	buf := make(heapBuffer, 10)
	for name, change := range map[string]func(*rpcrdma.Call){
		"item beyond the stream": func(c *rpcrdma.Call) { c.Items = []oncrpc.ReplyItem{{Pos: 1, Buf: buf, Len: 1}} },
		"item beyond its buffer": func(c *rpcrdma.Call) { c.Items = []oncrpc.ReplyItem{{Buf: buf, Len: 11}} },
		"result too large":       func(c *rpcrdma.Call) { c.Results = []rpcrdma.Result{{Buf: buf, Max: 11}} },
		"negative":               func(c *rpcrdma.Call) { c.MaxReply = -1 },
		"credential":             func(c *rpcrdma.Call) { c.Cred.Body = make([]byte, 401) },
		"too long":               func(c *rpcrdma.Call) { c.Args = make([]byte, 2<<20) },
		"reply too long":         func(c *rpcrdma.Call) { c.MaxReply = 2 << 20 },
		"too many results":       func(c *rpcrdma.Call) { c.Results = make([]rpcrdma.Result, 17); fill(c.Results, buf) },
	} {
		call := newCall(procNull)
		change(&call)
		if err := c.Call(b.ctx, &call); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s := conn.Stats(); s.Receives != 0 {
		t.Errorf("%+v", s)
	}
}

func fill(r []rpcrdma.Result, buf oncrpc.Buffer) {
	for i := range r {
		r[i] = rpcrdma.Result{Buf: buf, Max: 1}
	}
}

// TestDrainGivesUp: a service that does not return in time is cut off.
func TestDrainGivesUp(t *testing.T) {
	h := newBlocking()
	b := newBed(t, providers[0].make(t), bedConfig{handler: h})
	c, conn := b.dial(nil)
	failed := begin(func() error { return echo(b.ctx, c, 10, 1) })
	<-h.entered
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if err := conn.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var end *rpcrdma.Error
	if err := <-failed; !errors.As(err, &end) {
		t.Error(err)
	}
}
