package rpcrdma_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestLargestReply: a call may expect as much as one message has, and no larger number passes
// for a small one.
func TestLargestReply(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	c, _ := b.dial(nil)
	const most = rpcrdma.MaxMessage - oncrpc.AcceptedReplySize
	for _, tc := range []struct {
		maxReply int
		tooLong  bool
	}{{0, false}, {most, false}, {most + 1, true}, {math.MaxInt - oncrpc.AcceptedReplySize, true}, {math.MaxInt, true}} {
		call := newCall(procNull)
		call.MaxReply = tc.maxReply
		if err := c.Call(b.ctx, &call); errors.Is(err, rpcrdma.ErrCallTooLong) != tc.tooLong || !tc.tooLong && err != nil {
			t.Errorf("MaxReply %d: %v", tc.maxReply, err)
		}
	}
}

// TestLargerThanTheLimit: a call that needs more memory than its client may ever have fails, also
// if part of that is a buffer of Alloc. Other calls go on.
func TestLargerThanTheLimit(t *testing.T) {
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
			c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{MemoryLimit: rpcrdma.MinMemoryLimit})
			must(t, err)
			defer c.Close()
			const size = 1<<20 + 1
			var item oncrpc.Buffer = make(heapBuffer, size)
			if own {
				item, err = c.Alloc(b.ctx, size)
				must(t, err)
				defer item.Release()
			}
			call := newCall(procNull)
			call.Args, call.MaxReply = xdr.AppendUint32(nil, size), 1<<20
			call.Items = []oncrpc.ReplyItem{{Pos: 4, Len: size, Buf: item}}
			for _, n := range []int{1<<19 + 1, 1<<19 + 1, 1<<15 + 1} {
				call.Results = append(call.Results, rpcrdma.Result{Buf: make(heapBuffer, n+3), Max: n})
			}
			if err := c.Call(b.ctx, &call); !errors.Is(err, rpcrdma.ErrTooLarge) {
				t.Errorf("a buffer of Alloc: %v: %v", own, err)
			}
			should(t, plain(b.ctx, c, procNull))
		})
	}
}

// TestLargerThanTheLimitWithOneBuffer: the same for a call with several items in one buffer of Alloc.
func TestLargerThanTheLimitWithOneBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{MemoryLimit: rpcrdma.MinMemoryLimit})
		must(t, err)
		defer c.Close()
		const half = 1 << 19
		item, err := c.Alloc(b.ctx, 2*half+1)
		must(t, err)
		defer item.Release()
		call := newCall(procNull)
		call.Args, call.MaxReply = make([]byte, 8), 1<<20
		for i := range 2 {
			call.Items = append(call.Items, oncrpc.ReplyItem{Pos: 4 + 4*i, Len: half, Buf: item})
		}
		for _, n := range []int{half + 1, half + 1, 1<<15 + 1} {
			call.Results = append(call.Results, rpcrdma.Result{Buf: make(heapBuffer, n+3), Max: n})
		}
		if err := c.Call(b.ctx, &call); !errors.Is(err, rpcrdma.ErrTooLarge) {
			t.Error(err)
		}
	})
}
