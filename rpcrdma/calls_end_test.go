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
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// forever answers procNull only.
var forever = handlerFunc(func(ctx context.Context, c *call, r *reply) error {
	if c.Procedure != procNull {
		<-ctx.Done()
	}
	return ctx.Err()
})

// TestCloseWaitsForCalls: Close waits until the calls that it ends have given their memory
// back.
func TestCloseWaitsForCalls(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{handler: forever})
		for range 20 {
			c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{})
			must(t, err)
			must(t, plain(b.ctx, c, procNull))
			var calls sync.WaitGroup
			for range 8 {
				calls.Go(func() {
					call := newCall(procEcho)
					call.MaxReply = 1 << 20
					if err := c.Call(b.ctx, &call); err == nil {
						t.Error("a call that nobody answers has an answer")
					}
				})
			}
			for c.Stats().Calls < 9 && b.ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			calls.Wait()
		}
	})
}

// TestEndOfCallsWithoutMemory: a call that waits for memory when the connection ends was not
// sent, and says so, although nobody gives memory back.
func TestEndOfCallsWithoutMemory(t *testing.T) {
	for name, end := range map[string]func(*rpcrdma.Client, *rpcrdma.Conn){
		"client": func(c *rpcrdma.Client, _ *rpcrdma.Conn) {
			if err := c.Close(); !errors.Is(err, verbs.ErrBusy) { // replies are held
				t.Errorf("close: %v", err)
			}
		},
		"server": func(_ *rpcrdma.Client, conn *rpcrdma.Conn) { conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour})
				c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{MemoryLimit: rpcrdma.MinMemoryLimit})
				must(t, err)
				defer c.Close()
				longReply := func(within time.Duration) (oncrpc.Buffer, error) {
					ctx, cancel := context.WithTimeout(b.ctx, within)
					defer cancel()
					call := newCall(procRead)
					call.Args = xdr.AppendUint32(xdr.AppendUint32(nil, 1<<20), 1)
					call.MaxReply, call.Whole = 12+1<<20, true
					err := c.Call(ctx, &call)
					return call.Long, err
				}
				for err == nil {
					var held oncrpc.Buffer
					if held, err = longReply(time.Second); err == nil {
						defer held.Release()
					}
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				waits := make(chan error, 1)
				go func() {
					_, err := longReply(time.Minute)
					waits <- err
				}()
				synctest.Wait()
				end(c, <-b.conns)
				if err := <-waits; !errors.Is(err, rpcrdma.ErrClosed) {
					t.Errorf("%v", err)
				}
				<-c.Done()
			})
		})
	}
}

// TestEndOfAlloc: Alloc that waits for memory ends with its context or with the client.
func TestEndOfAlloc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour})
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{MemoryLimit: rpcrdma.MinMemoryLimit})
		must(t, err)
		alloc := func(within time.Duration) (oncrpc.Buffer, error) {
			ctx, cancel := context.WithTimeout(b.ctx, within)
			defer cancel()
			return c.Alloc(ctx, 1<<20)
		}
		for err == nil {
			var held oncrpc.Buffer
			if held, err = alloc(time.Second); err == nil {
				defer held.Release()
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without memory: %v", err)
		}
		waits := make(chan error, 1)
		go func() {
			_, err := alloc(time.Minute)
			waits <- err
		}()
		synctest.Wait()
		if err := c.Close(); !errors.Is(err, verbs.ErrBusy) { // buffers are held
			t.Errorf("close: %v", err)
		}
		if err := <-waits; !errors.Is(err, rpcrdma.ErrClosed) {
			t.Errorf("when the client is closed: %v", err)
		}
		if _, err := alloc(time.Second); !errors.Is(err, rpcrdma.ErrClosed) {
			t.Errorf("of a closed client: %v", err)
		}
	})
}

// TestClientHoldsMemory: a client holds memory until it is closed, even after Drain and the end
// of its connection.
func TestClientHoldsMemory(t *testing.T) {
	for name, end := range map[string]func(*bed, *rpcrdma.Client, *rpcrdma.Conn) error{
		"drained": func(b *bed, c *rpcrdma.Client, _ *rpcrdma.Conn) error { return c.Drain(b.ctx) },
		"ended":   func(_ *bed, _ *rpcrdma.Client, conn *rpcrdma.Conn) error { return conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, providers[0].make(t), bedConfig{})
			c, conn := b.dial(nil)
			must(t, end(b, c, conn))
			<-c.Done()
			<-conn.Done()
			b.l.Close()
			if err := b.raw.Close(); !errors.Is(err, verbs.ErrBusy) {
				t.Errorf("close the provider before the client: %v", err)
			}
		})
	}
}
