package rpcrdma_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// prepared gives a call of the test service that can be made again and again.
func prepared(tb testing.TB, c *rpcrdma.Client, b *bed, proc uint32, n int) *rpcrdma.Call {
	call := newCall(proc)
	switch proc {
	case procEcho:
		call.Args = xdr.AppendOpaque(nil, make([]byte, n))
		call.MaxReply = len(call.Args)
	case procRead:
		buf, err := c.Alloc(b.ctx, n)
		must(tb, err)
		tb.Cleanup(buf.Release)
		call.Args = xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), 1)
		call.MaxReply = 12
		call.Results = []rpcrdma.Result{{Buf: buf, Max: n}}
	case procWrite:
		buf, err := c.Alloc(b.ctx, n)
		must(tb, err)
		tb.Cleanup(buf.Release)
		call.Args = xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), 1)
		call.Items = []oncrpc.ReplyItem{{Pos: 4, Buf: buf, Len: n}}
		call.MaxReply = 12
	}
	return &call
}

// TestAllocations: calls in steady state, both sides together. The one with
// chunks is the fabric's, which makes a binding for each window.
func TestAllocations(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: zero{}, unjudged: true})
	c, _ := b.dial(nil)
	for _, tc := range []struct {
		name    string
		proc    uint32
		n       int
		allowed float64
	}{
		{"NULL", procNull, 0, 0},
		{"inline echo", procEcho, 3000, 0},
		{"read chunk", procWrite, 1 << 16, 2},
		{"write chunk", procRead, 1 << 16, 2},
		{"write chunk of a page", procRead, 4096, 2},
	} {
		call := prepared(t, c, b, tc.proc, tc.n)
		one := func() { must(t, c.Call(b.ctx, call)) }
		for range 200 {
			one()
		}
		if n := testing.AllocsPerRun(500, one); n > tc.allowed {
			t.Errorf("%s: %v allocations per call, %v allowed", tc.name, n, tc.allowed)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	for _, p := range providers {
		for _, tc := range []struct {
			name  string
			proc  uint32
			n     int
			depth int
		}{
			{"null", procNull, 0, 1}, {"null", procNull, 0, 64},
			{"echo", procEcho, 3000, 1},
			{"read", procRead, 4096, 1}, {"read", procRead, 4096, 16},
			{"read", procRead, 1 << 20, 1}, {"read", procRead, 1 << 20, 8},
			{"write", procWrite, 1 << 20, 1}, {"write", procWrite, 1 << 20, 8},
		} {
			b.Run(fmt.Sprintf("%s/%s-%d/depth-%d", p.name, tc.name, tc.n, tc.depth), func(b *testing.B) {
				bed := newBed(b, p.make(b), bedConfig{handler: zero{}})
				c, _ := bed.dial(nil)
				var wg sync.WaitGroup
				b.SetBytes(int64(tc.n))
				b.ReportAllocs()
				b.ResetTimer()
				for i := range tc.depth {
					n := b.N / tc.depth
					if i == 0 {
						n = b.N - (tc.depth-1)*n
					}
					call := prepared(b, c, bed, tc.proc, tc.n)
					wg.Go(func() {
						for range n {
							if err := c.Call(bed.ctx, call); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
