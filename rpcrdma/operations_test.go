package rpcrdma_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// procMany has several operations, as a COMPOUND has: of each its bytes and a seed
// go there, and an opaque comes back, apart, unless it is to have none.
const procMany = 6

// operation asks for most bytes, and gets n; none if n is negative.
type operation struct{ most, n int }

const operationSize = 2 * xdr.Unit

// many serves procMany, and all else as service.
type many struct{}

func (many) ServeRPC(ctx context.Context, c *call, r *reply) error {
	if c.Procedure != procMany {
		return service{}.ServeRPC(ctx, c, r)
	}
	d := xdr.NewDecoder(c.Args.Stream)
	for i := range int(d.Uint32()) {
		n, seed := int(int32(d.Uint32())), d.Uint32()
		if d.Err() != nil || n > maxOpaque {
			return d.Err()
		}
		r.Stream = xdr.AppendUint32(r.Stream, uint32(n))
		if n < 0 {
			r.AppendAbsent()
			continue
		}
		buf, err := r.Mem.Alloc(ctx, max(n, 1))
		if err != nil {
			return err
		}
		pattern(buf.Bytes()[:n], seed)
		r.AppendResult(buf, n, xdr.Span{Begin: xdr.Unit + i*operationSize, End: xdr.Unit + (i+1)*operationSize})
	}
	return nil
}

// do calls procMany and checks that each operation's data is in its memory, or in
// the reply.
func do(ctx context.Context, c *rpcrdma.Client, ops []operation, seed uint32) error {
	call := newCall(procMany)
	call.Args = xdr.AppendUint32(nil, uint32(len(ops)))
	call.MaxReply = xdr.Unit * len(ops)
	for i, op := range ops {
		buf, err := c.Alloc(ctx, op.most+4)
		if err != nil {
			return err
		}
		defer buf.Release()
		at := len(call.Args)
		call.Args = xdr.AppendUint32(xdr.AppendUint32(call.Args, uint32(int32(op.n))), seed+uint32(i))
		call.Results = append(call.Results, rpcrdma.Result{Buf: buf, Max: op.most, Asked: xdr.Span{Begin: at, End: len(call.Args)}})
	}
	if err := c.Call(ctx, &call); err != nil {
		return err
	}
	d := xdr.NewDecoder(call.Reply)
	for i, op := range ops {
		res := &call.Results[i]
		n := int(int32(d.Uint32()))
		if n != op.n || (n < 0 && res.Apart > 0) {
			return fmt.Errorf("operation %d of %+v: %d bytes, %d apart", i, ops, n, res.Apart)
		}
		if n < 0 {
			continue
		}
		got := res.Buf.Bytes()[:res.Apart]
		if res.Apart == 0 {
			got = d.Fixed(n)
		}
		want := make([]byte, n)
		if pattern(want, seed+uint32(i)); len(got) < n || !bytes.Equal(got[:n], want) {
			return fmt.Errorf("operation %d of %+v: %w", i, ops, errWrong)
		}
	}
	return d.Err()
}

// TestOperationsPlaced: each operation's result is where that operation asked for
// it, whatever the others have, with each placement.
func TestOperationsPlaced(t *testing.T) {
	ops := func(all ...operation) []operation { return all }
	for _, tc := range []struct {
		name  string
		ops   []operation
		rdma  map[rpcrdma.Placement]uint64 // RDMA Writes
		binds map[rpcrdma.Placement]uint64 // registrations
	}{
		{"one that fits", ops(operation{20000, 20000}),
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1},
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1, rpcrdma.PlaceChosen: 1}},
		{"one that turns out short", ops(operation{1 << 20, 20000}),
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1, rpcrdma.PlaceSent: 1},
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1, rpcrdma.PlaceSent: 1, rpcrdma.PlaceChosen: 1, rpcrdma.PlaceBySize: 1}},
		{"one that does not", ops(operation{1 << 19, 1 << 19}),
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1, rpcrdma.PlaceSent: 1, rpcrdma.PlaceChosen: 1, rpcrdma.PlaceBySize: 1},
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1, rpcrdma.PlaceSent: 1, rpcrdma.PlaceChosen: 1, rpcrdma.PlaceBySize: 1}},
		{"the second has the data", ops(operation{20000, -1}, operation{8000, 5000}),
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1},
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 2, rpcrdma.PlaceChosen: 2}},
		{"long, then short", ops(operation{1 << 19, 1 << 19}, operation{8000, 5000}),
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 2, rpcrdma.PlaceSent: 2, rpcrdma.PlaceChosen: 1, rpcrdma.PlaceBySize: 1},
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 2, rpcrdma.PlaceSent: 2, rpcrdma.PlaceChosen: 2, rpcrdma.PlaceBySize: 1}},
		{"two halves that fit when one is short", ops(operation{30000, 30000}, operation{30000, 8000}),
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 2, rpcrdma.PlaceSent: 2, rpcrdma.PlaceChosen: 1, rpcrdma.PlaceBySize: 1},
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 2, rpcrdma.PlaceSent: 2, rpcrdma.PlaceChosen: 2, rpcrdma.PlaceBySize: 2}},
		{"an empty one before", ops(operation{8000, 0}, operation{8000, 8000}),
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 1},
			map[rpcrdma.Placement]uint64{rpcrdma.PlaceWritten: 2, rpcrdma.PlaceChosen: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				b := newBed(t, p, bedConfig{settings: placing(0), handler: many{}})
				c, conn := b.dial(placing(0))
				must(t, echo(b.ctx, c, 1, 1))
				for place := range rpcrdma.PlaceBySize + 1 {
					s := rpcrdma.DefaultSettings()
					placing(0)(&s)
					s.Placement = place
					c.SetSettings(&s)
					cs, ss := c.Stats(), conn.Stats()
					if err := do(b.ctx, c, tc.ops, 3); err != nil {
						t.Fatalf("%d: %v", place, err)
					}
					rdma, binds := conn.Stats().RDMAWrites-ss.RDMAWrites, c.Stats().Registrations-cs.Registrations
					if written := c.Stats().PeerWrites - cs.PeerWrites; written != rdma {
						t.Errorf("%d: the client counts %d RDMA Writes, the server %d", place, written, rdma)
					}
					if rdma != tc.rdma[place] || binds != tc.binds[place] {
						t.Errorf("%d: %d RDMA Writes and %d registrations, want %d and %d", place, rdma, binds, tc.rdma[place], tc.binds[place])
					}
				}
				if cs, ss := c.Stats(), conn.Stats(); cs.Errors+ss.Errors+cs.BadReplies+cs.Ignored+ss.Ignored != 0 {
					t.Errorf("%+v\n%+v", cs, ss)
				}
			})
		})
	}
}

// TestAnyOperationsPlaced: any operations with any results, while the placement and
// everything else is changed at both ends.
func TestAnyOperationsPlaced(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: placing(rpcrdma.ExtContinuation), handler: many{}})
		c, conn := b.dial(placing(rpcrdma.ExtContinuation))
		rng := rand.New(rand.NewPCG(5, 5))
		for k := range uint32(200) {
			if k%10 == 9 {
				s := anySettings(rng)
				c.SetSettings(s)
				conn.SetSettings(anySettings(rng))
			}
			var ops []operation
			for range 1 + rng.IntN(5) {
				op := operation{most: 1 << (4 + rng.IntN(13))}
				if op.n = rng.IntN(op.most + 1); rng.IntN(5) == 0 {
					op.n = []int{-1, 0, op.most}[rng.IntN(3)]
				}
				ops = append(ops, op)
			}
			if err := do(b.ctx, c, ops, k); err != nil {
				t.Fatalf("call %d of %+v: %v", k, ops, err)
			}
		}
		if cs, ss := c.Stats(), conn.Stats(); cs.Errors+ss.Errors+cs.BadReplies+cs.Ignored+ss.Ignored != 0 {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}
