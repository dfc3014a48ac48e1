package rpcrdma_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// charged is what connections hold, and wait for, of the memory that they share.
type charged struct {
	replies, fetches int64
	waiting, holders int
}

func (b *bed) charged() charged {
	replies, fetches := b.l.Shares()
	return charged{replies.Held, fetches.Held, replies.Waiting + fetches.Waiting, replies.Holders + fetches.Holders}
}

// holding are the ways in which calls hold memory of the listener, or wait for it.
var holding = []struct {
	name    string
	reads   bool // RDMA Reads that are not answered hold it
	stalls  bool // the connection ends some time after that
	handler oncrpc.Handler
	calls   func(h *hoarder, p *loopback.Provider)
	reached func(charged) bool
}{
	{"a reply is not read", false, true, service{},
		func(h *hoarder, _ *loopback.Provider) { h.ask(1) },
		func(c charged) bool { return c.replies == 1<<20 }},
	{"replies wait for memory", false, true, service{},
		func(h *hoarder, _ *loopback.Provider) { h.ask(63) },
		func(c charged) bool { return c.replies > 4<<20 && c.waiting > 0 }},
	{"a copied reply is not read", false, true, handlerFunc(func(ctx context.Context, c *call, r *reply) error {
		if c.Procedure == procNull {
			return nil
		}
		return read(ctx, r, 60000, 1, true)
	}),
		func(h *hoarder, _ *loopback.Provider) { h.ask(1) },
		func(c charged) bool { return c.replies > 0 && c.replies < 1<<20 }},
	{"a reply for the peer to read", false, false, service{},
		func(h *hoarder, _ *loopback.Provider) {
			h.xid++
			h.post(message(rpcrdma1.Header{XID: h.xid, Credits: 64}, procRead, xdr.AppendUint32(xdr.AppendUint32(nil, 60000), 7)...))
		},
		func(c charged) bool { return c.replies > 0 }},
	{"a Read is not answered", true, true, service{},
		func(h *hoarder, p *loopback.Provider) { h.giveUnanswered(p, 1) },
		func(c charged) bool { return c.fetches == 1<<20 }},
	{"calls wait for memory", true, true, service{},
		func(h *hoarder, p *loopback.Provider) {
			h.listen(4)
			h.seemFar(p, h.data)
			h.giveUnanswered(p, 63)
		},
		func(c charged) bool { return c.fetches > 4<<20 && c.waiting > 0 }},
	{"the service has the arguments", false, false, handlerFunc(func(ctx context.Context, c *call, _ *reply) error {
		if c.Procedure == procWrite {
			<-ctx.Done()
		}
		return nil
	}),
		func(h *hoarder, _ *loopback.Provider) { h.give(1) },
		func(c charged) bool { return c.fetches == 1<<20 }},
	{"the service makes the reply", false, false, handlerFunc(func(ctx context.Context, c *call, r *reply) error {
		if c.Procedure == procNull {
			return nil
		}
		err := read(ctx, r, 1<<20, 1, false)
		<-ctx.Done()
		return err
	}),
		func(h *hoarder, _ *loopback.Provider) { h.ask(1) },
		func(c charged) bool { return c.replies == 1<<20 }},
	{"half of a reply is written", false, false, inParts{between: func(ctx context.Context, _ func(int)) error {
		<-ctx.Done()
		return ctx.Err()
	}},
		func(h *hoarder, _ *loopback.Provider) { h.ask(1) },
		func(c charged) bool { return c.replies == 1<<20 }},
}

// giveUnanswered makes n calls that write 1 MiB each, and answers no Read.
func (h *hoarder) giveUnanswered(p *loopback.Provider, n int) {
	holdReads(p, time.Hour, func() { h.give(1) })
	h.give(n - 1)
}

// endings are the ways in which a connection ends.
var endings = []struct {
	name string
	end  func(b *bed, h *hoarder)
}{
	{"the peer disconnects", func(b *bed, h *hoarder) { h.ok(h.id.Disconnect()) }},
	{"the peer is gone", func(b *bed, h *hoarder) { h.ok(h.id.Close()) }},
	{"the peer breaks rules", func(b *bed, h *hoarder) {
		h.post(make([]byte, rawSize)) // longer than any receive
	}},
	{"closed", func(b *bed, h *hoarder) { h.ok(h.conn.Close()) }},
	{"drained in vain", func(b *bed, h *hoarder) {
		ctx, cancel := context.WithTimeout(b.ctx, time.Second)
		defer cancel()
		if err := h.conn.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Error(err)
		}
	}},
	{"drained when it stalls", func(b *bed, h *hoarder) { _ = h.conn.Drain(b.ctx) }},
}

// TestChargesOfConnections: whatever a connection's calls hold of the memory that
// connections share, and however the connection ends, nothing stays charged.
func TestChargesOfConnections(t *testing.T) {
	for _, hold := range holding {
		for _, ending := range endings {
			if ending.name == "drained when it stalls" && !hold.stalls {
				continue // it waits for the service
			}
			t.Run(hold.name+"/"+ending.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := acknowledging()
					if hold.reads {
						p = loopback.New(loopback.Config{})
					}
					b := newBed(t, p, bedConfig{handler: hold.handler, memory: 40 << 20, timeout: time.Hour, settings: readReplies})
					h := b.dialHoarder(b.l.Addr().String())
					hold.calls(h, p)
					synctest.Wait()
					if c := b.charged(); !hold.reached(c) {
						t.Fatalf("%+v", c)
					}
					ending.end(b, h)
					<-h.conn.Done()
					if c := b.charged(); c != (charged{}) {
						t.Errorf("%+v", c)
					}
				})
			})
		}
	}
}

// TestChargesOfCalls: however a call ends, nothing stays charged while its
// connection goes on.
func TestChargesOfCalls(t *testing.T) {
	failing := errors.New("no")
	// taking is a service that takes memory for a reply and arguments, and then ends in
	// another way.
	taking := func(end func(ctx context.Context, r *reply) error) oncrpc.Handler {
		return handlerFunc(func(ctx context.Context, _ *call, r *reply) error {
			if err := read(ctx, r, 20000, 1, false); err != nil {
				return err
			}
			return end(ctx, r)
		})
	}
	write := func(b *bed, c *rpcrdma.Client) error { return writeOut(b.ctx, c, 1<<20, 1) }
	read := func(b *bed, c *rpcrdma.Client) error { return readBack(b.ctx, c, procRead, 1<<20, 1<<20, 1) }
	for name, c := range map[string]struct {
		handler oncrpc.Handler
		call    func(b *bed, c *rpcrdma.Client) error
		fails   bool
	}{
		"read":               {service{}, read, false},
		"read, copied":       {service{}, func(b *bed, c *rpcrdma.Client) error { return readBack(b.ctx, c, procHeap, 1<<20, 1<<20, 1) }, false},
		"written":            {service{}, write, false},
		"read by the client": {service{}, func(b *bed, c *rpcrdma.Client) error { return longEcho(b.ctx, c, 60000, 1) }, false},
		"not acknowledged": {service{}, func(b *bed, c *rpcrdma.Client) error {
			off := rpcrdma.DefaultSettings()
			c.SetSettings(&off)
			defer time.Sleep(time.Minute)
			return longEcho(b.ctx, c, 60000, 1)
		}, true},
		"no procedure":                   {service{}, func(b *bed, c *rpcrdma.Client) error { return plain(b.ctx, c, 99) }, true},
		"the service fails":              {taking(func(context.Context, *reply) error { return failing }), write, true},
		"the service panics":             {taking(func(context.Context, *reply) error { panic("as asked") }), write, true},
		"the reply is longer than asked": {taking(func(context.Context, *reply) error { return nil }), write, true},
		"the reply is impossible": {taking(func(_ context.Context, r *reply) error {
			r.Items[0].Len = 1 << 30
			return nil
		}), write, true},
		"given up": {taking(func(context.Context, *reply) error {
			time.Sleep(time.Minute)
			return failing
		}), func(b *bed, c *rpcrdma.Client) error {
			ctx, cancel := context.WithTimeout(b.ctx, time.Second)
			defer cancel()
			defer time.Sleep(time.Hour)
			return writeOut(ctx, c, 1<<20, 1)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, acknowledging(), bedConfig{handler: c.handler, timeout: 10 * time.Hour, settings: func(s *rpcrdma.Settings) {
					readReplies(s)
					s.RemoteInvalidationUse = false // a late reply would invalidate what was given up
				}})
				client, server := b.dial(readReplies)
				if err := c.call(b, client); (err != nil) != c.fails {
					t.Error(err)
				}
				synctest.Wait()
				if got := b.charged(); got != (charged{holders: 2}) {
					t.Errorf("%+v", got)
				}
				if err := server.Err(); err != nil {
					t.Errorf("the connection has ended: %v", err)
				}
			})
		})
	}
}

// TestCallsShareLittleMemory: calls that each need several buffers, and more of them than there
// is memory for, do not wait for each other's.
func TestCallsShareLittleMemory(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{MemoryLimit: rpcrdma.MinMemoryLimit})
		must(t, err)
		defer c.Close()
		const n = 1 << 20
		must(t, echo(b.ctx, c, 1, 1)) // brings its receives
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				for range 2 {
					call := newCall(procWrite)
					call.Args = xdr.AppendUint32(xdr.AppendUint32(nil, n), 7)
					call.Items = []oncrpc.ReplyItem{{Pos: 4, Buf: make(heapBuffer, n), Len: n}}
					call.MaxReply = n - 100 // it goes into a reply chunk
					should(t, c.Call(b.ctx, &call))
				}
			})
		}
		calls.Wait()
	})
}
