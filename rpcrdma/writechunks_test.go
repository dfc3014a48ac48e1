package rpcrdma_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// results has results of these sizes that are DDP-eligible.
type results []int

func (sizes results) ServeRPC(ctx context.Context, _ *call, r *reply) error {
	for _, n := range sizes {
		buf, err := r.Mem.Alloc(ctx, n)
		if err != nil {
			return err
		}
		pattern(buf.Bytes()[:n], uint32(n))
		r.Stream = xdr.AppendUint32(r.Stream, uint32(n))
		r.AppendItem(buf, n)
	}
	return nil
}

// TestResultsTakeTheirChunks: with several write chunks offered, each result goes
// into its own, in order, however small it is (RFC 5666 §3.6); with one alone, a
// result below ddp.min_chunk stays inline.
func TestResultsTakeTheirChunks(t *testing.T) {
	for _, sizes := range []results{{100, 5000}, {5000, 1}, {100, 200}, {100}} {
		eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
			b := newBed(t, p, bedConfig{handler: sizes, settings: func(s *rpcrdma.Settings) { s.RemoteInvalidationUse = false }})
			r := b.dialRaw(kernelPrivateData)
			mr := r.memory(16384, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
			h := rpcrdma1.Header{XID: 1}
			for i := range sizes {
				h.Writes = append(h.Writes, rpcrdma1.WriteChunk{segment(mr, i*8192, 8192)})
			}
			h, body := r.exchange(message(h, procRead))
			inline := len(body) - 24 - 4*len(sizes)
			for i, n := range sizes {
				want := make([]byte, n)
				pattern(want, uint32(n))
				switch got := int(h.Writes[i][0].Length); {
				case len(sizes) == 1:
					if got != 0 || inline != n {
						t.Errorf("%v: %d bytes in the write chunk, %d inline", sizes, got, inline)
					}
				case got != n || !bytes.Equal(mr.Bytes()[i*8192:][:n], want) || inline != 0:
					t.Errorf("%v: result %d is %d bytes in its write chunk, %d inline", sizes, i, got, inline)
				}
			}
		})
	}
}
