package rpcrdma_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestCallAfterTheEnd: a call on a connection that the server ended in order fails with
// ErrClosed, and was not sent.
func TestCallAfterTheEnd(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c, conn := b.dial(nil)
		must(t, plain(b.ctx, c, procNull))
		must(t, conn.Drain(b.ctx))
		<-c.Done()
		if err := plain(b.ctx, c, procNull); !errors.Is(err, rpcrdma.ErrClosed) || c.Err() != nil {
			t.Errorf("%v, ended because of %v", err, c.Err())
		}
	})
}

// TestCallsWithoutMemory: items and results without a buffer make the call fail, and
// nothing else.
func TestCallsWithoutMemory(t *testing.T) {
	b := newBed(t, newSoftiwarp(t), bedConfig{})
	c, _ := b.dial(nil)
	for name, call := range map[string]rpcrdma.Call{
		"item":         {Items: []oncrpc.ReplyItem{{Len: 4}}},
		"empty item":   {Items: []oncrpc.ReplyItem{{}}},
		"result":       {Results: []rpcrdma.Result{{Max: 4}}},
		"empty result": {Results: []rpcrdma.Result{{}}},
	} {
		if err := c.Call(b.ctx, &call); !errors.Is(err, rpcrdma.ErrInvalidCall) {
			t.Errorf("%s: %v", name, err)
		}
		done := make(chan error, 1)
		if c.Go(&call, func(err error, _ bool) { done <- err }) {
			if err := <-done; !errors.Is(err, rpcrdma.ErrInvalidCall) {
				t.Errorf("%s: Go: %v", name, err)
			}
		}
	}
	if _, err := c.Alloc(b.ctx, 2*rpcrdma.MaxMessage); !errors.Is(err, rpcrdma.ErrTooLarge) {
		t.Errorf("a buffer that is too large: %v", err)
	}
	should(t, plain(b.ctx, c, procNull))
}

// itemless makes replies with an item that has no memory.
type itemless struct{}

func (itemless) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Procedure != procNull {
		r.AppendItem(nil, int(c.Procedure)-1)
	}
	return nil
}

// TestReplyWithoutMemory: a handler's item without a buffer makes its call fail, and
// nothing else.
func TestReplyWithoutMemory(t *testing.T) {
	ctx := t.Context()
	p := newSoftiwarp(t)
	l, err := rpcrdma.Listen(ctx, p, bedHost+":0", rpcrdma.ListenConfig{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	go func() {
		if req, err := l.Accept(ctx); err == nil {
			_, _ = req.Accept(ctx, rpcrdma.ConnConfig{Handler: itemless{}})
		}
	}()
	c, err := rpcrdma.Dial(ctx, p, l.Addr().String(), rpcrdma.DialConfig{})
	must(t, err)
	for _, procedure := range []uint32{1, 5} {
		var failed *oncrpc.AcceptError
		err := c.Call(ctx, &rpcrdma.Call{Procedure: procedure, MaxReply: 100})
		if !errors.As(err, &failed) || failed.Stat != oncrpc.SystemErr {
			t.Errorf("%v", err)
		}
	}
	should(t, plain(ctx, c, procNull))
	should(t, errors.Join(c.Drain(ctx), c.Close(), l.Close(), p.Close()))
}
