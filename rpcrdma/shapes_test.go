package rpcrdma_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// sizes around every threshold: XDR units, inline limits, pages, the largest.
var sizes = []int{0, 1, 2, 3, 4, 5, 100, 1000, 1023, 1024, 3900, 3901, 4000, 4063, 4064, 4065, 4095, 4096, 4097, 8191, 65535, 65536, 65537, 1<<20 - 1, 1 << 20}

func TestMessageShapes(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c, conn := b.dial(nil)
		check := func(what string, n int, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", what, n, err)
			}
		}
		for i, n := range sizes {
			seed := uint32(i)
			check("echo", n, echo(b.ctx, c, n, seed))
			check("write", n, writeOut(b.ctx, c, n, seed))
			check("read", n, readBack(b.ctx, c, procRead, n, n, seed))
			check("read with a larger buffer", n, readBack(b.ctx, c, procRead, n, min(n+5000, maxOpaque), seed))
			check("read of unregistered memory", n, readBack(b.ctx, c, procHeap, n, n, seed))
			check("write from unregistered memory", n, writeFrom(b.ctx, c, make(heapBuffer, n), n, seed))
		}
		s := conn.Stats()
		if s.RDMAReads == 0 || s.RDMAWrites == 0 || s.Errors != 0 || s.Calls != s.Replies {
			t.Errorf("responder: %+v", s)
		}
		if conn.Info().RemoteInvalidation != (s.SendsWithInvalidate > 0) {
			t.Errorf("invalidation %v: %+v", conn.Info().RemoteInvalidation, s)
		}
		if r := c.Stats().RemoteInvalidations; r != s.SendsWithInvalidate {
			t.Errorf("%d invalidated, %d seen", s.SendsWithInvalidate, r)
		}
	})
}

// TestThresholds checks where items travel: inline below ddp.min_chunk when
// everything fits, by RDMA otherwise.
func TestThresholds(t *testing.T) {
	for _, tc := range []struct {
		minChunk, size int
		apart          bool
	}{
		{4096, 512, false}, {4096, 3000, false}, {256, 512, true}, {256, 255, false}, {1, 1, true}, {1 << 20, 4096, true},
	} {
		t.Run(fmt.Sprintf("%d of %d", tc.size, tc.minChunk), func(t *testing.T) {
			set := func(s *rpcrdma.Settings) { s.DDPMinChunk = uint32(tc.minChunk) }
			b := newBed(t, providers[0].make(t), bedConfig{settings: set})
			c, conn := b.dial(set)
			if err := readBack(b.ctx, c, procRead, tc.size, tc.size, 1); err != nil {
				t.Fatal(err)
			}
			if err := writeOut(b.ctx, c, tc.size, 1); err != nil {
				t.Fatal(err)
			}
			if s := conn.Stats(); (s.RDMAWrites > 0) != tc.apart || (s.RDMAReads > 0) != tc.apart {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestServiceErrors(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c, _ := b.dial(nil)
		for proc, want := range map[uint32]oncrpc.AcceptStat{
			99: oncrpc.ProcUnavail, procEcho: oncrpc.GarbageArgs, procPanic: oncrpc.SystemErr,
		} {
			call := newCall(proc)
			err := c.Call(b.ctx, &call)
			if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != want {
				t.Errorf("procedure %d: %v, want %v", proc, err, want)
			}
		}
		if err := echo(b.ctx, c, 10, 1); err != nil {
			t.Error(err)
		}
	})
}

// TestReplyTooLong: a client that announced too little gets an error for that
// call and keeps its connection.
func TestReplyTooLong(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	c, conn := b.dial(nil)
	call := newCall(procEcho)
	call.Args = make([]byte, 4+8000)
	call.Args[2], call.Args[3] = 8000>>8, 8000&0xff
	call.MaxReply = 100
	var pe *rpcrdma.PeerError
	if err := c.Call(b.ctx, &call); !errors.As(err, &pe) {
		t.Fatalf("%v", err)
	}
	if err := echo(b.ctx, c, 8000, 1); err != nil {
		t.Error(err)
	}
	if s := conn.Stats(); s.Errors != 1 {
		t.Errorf("%+v", s)
	}
}
