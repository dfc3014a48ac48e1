package rpcrdma_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
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
			must(t, readBack(b.ctx, c, procRead, tc.size, tc.size, 1))
			must(t, writeOut(b.ctx, c, tc.size, 1))
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
			err := plain(b.ctx, c, proc)
			if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != want {
				t.Errorf("procedure %d: %v, want %v", proc, err, want)
			}
		}
		should(t, echo(b.ctx, c, 10, 1))
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
	should(t, echo(b.ctx, c, 8000, 1))
	if s := conn.Stats(); s.Errors != 1 {
		t.Errorf("%+v", s)
	}
}

// items is a service that answers with as many items as it is called with
// sizes, each after its length word, a marker behind the last.
var items = handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	d := xdr.NewDecoder(c.Args.Stream)
	for i := 0; d.Offset() < len(c.Args.Stream); i++ {
		n := int(d.Uint32())
		buf, err := r.Mem.Alloc(ctx, n)
		if err != nil {
			return err
		}
		pattern(buf.Bytes()[:n], uint32(i))
		r.Stream = xdr.AppendUint32(r.Stream, uint32(n))
		r.AppendItem(buf, n)
	}
	r.Stream = append(r.Stream, "mark"...)
	return nil
})

// TestSeveralItems: several DDP-eligible results, each apart or in the reply,
// inline or in the reply chunk.
func TestSeveralItems(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{handler: items})
		c, _ := b.dial(nil)
		for _, sizes := range [][]int{
			{1, 2, 3}, {5}, {0, 0}, {1000, 1001, 1002}, {2000, 3, 2001}, {5000, 1}, {1, 5000, 3, 70000}, {0, 5000, 0, 1}, {9999, 9998},
		} {
			// Offered memory for all of them, for the first, for none.
			for _, offered := range []int{len(sizes), 1, 0} {
				call := newCall(1)
				call.MaxReply = 4
				for i, n := range sizes {
					call.Args = xdr.AppendUint32(call.Args, uint32(n))
					call.MaxReply += 4
					if i >= offered {
						call.MaxReply += xdr.Padded(n)
						continue
					}
					buf, err := c.Alloc(b.ctx, n+3)
					must(t, err)
					call.Results = append(call.Results, rpcrdma.Result{Buf: buf, Max: n})
				}
				if err := c.Call(b.ctx, &call); err != nil {
					t.Fatalf("%v, %d offered: %v", sizes, offered, err)
				}
				d := xdr.NewDecoder(call.Reply)
				for i, n := range sizes {
					if got := d.Uint32(); int(got) != n {
						t.Fatalf("%v, %d offered: item %d of %d bytes", sizes, offered, i, got)
					}
					var data []byte
					if i < offered && call.Results[i].Apart > 0 {
						data = call.Results[i].Buf.Bytes()[:n]
					} else {
						data = d.Fixed(n)
					}
					want := make([]byte, n)
					pattern(want, uint32(i))
					if !bytes.Equal(data, want) {
						t.Fatalf("%v, %d offered: item %d differs", sizes, offered, i)
					}
				}
				if mark := d.Fixed(4); string(mark) != "mark" || d.Offset() != len(call.Reply) {
					t.Fatalf("%v, %d offered: %q, %d of %d bytes", sizes, offered, mark, d.Offset(), len(call.Reply))
				}
				for _, res := range call.Results {
					res.Buf.Release()
				}
			}
		}
	})
}

// TestLimitRisesDuringCall: the answer's header is longer than what was
// allowed when the call came.
func TestLimitRisesDuringCall(t *testing.T) {
	h := newBlocking()
	b := newBed(t, providers[0].make(t), bedConfig{handler: h, settings: func(s *rpcrdma.Settings) {
		s.InlineReceiveSize, s.InlineSendMax = 8192, 8192
	}})
	r := b.dialRaw(wire.PrivateData{SendSize: 8192, ReceiveSize: 8192}.Append(nil))
	conn := <-b.conns
	data := r.memory(5000, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	s := b.settings
	s.InlineSendMax = 1024
	conn.SetSettings(&s)
	head := rpcrdma1.Header{XID: 1, Writes: []rpcrdma1.WriteChunk{nil}}
	for i := range 200 {
		head.Writes[0] = append(head.Writes[0], segment(data, i*25, 25))
	}
	r.post(message(head, procRead, binary.BigEndian.AppendUint64(nil, 5000<<32|3)...))
	<-h.entered
	s.InlineSendMax = 8192
	conn.SetSettings(&s)
	close(h.release)
	var got rpcrdma1.Header
	if _, err := got.Decode(r.receive()); err != nil || got.Proc != rpcrdma1.Msg || len(got.Writes[0]) != 200 {
		t.Fatalf("%v, %+v", err, got)
	}
	want := make([]byte, 5000)
	pattern(want, 3)
	if !bytes.Equal(data.Bytes(), want) {
		t.Error("other data")
	}
}
