package nfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
)

// walked is what a walk over one body found.
type walked struct {
	items []ulb.Item
	end   int
	err   error
}

// walkBody walks over a body as it would come from a peer, whole.
func walkBody(p *ulb.Plan, s *side, body []byte, ops any) walked {
	switch s {
	case &callSide:
		err := p.Call(registry, v4call(body))
		return walked{slices.Clone(p.Items), p.Offset(), err}
	default:
		if err := p.Call(registry, asksFor(ops.([]nfsv4.NfsResop4))); err != nil {
			return walked{err: err}
		}
		err := p.Reply(&oncrpc.Payload{Stream: body})
		var found []ulb.Item
		for _, r := range p.Results {
			if r.Pos >= 0 {
				found = append(found, ulb.Item{Pos: r.Pos, Len: r.Len})
			}
		}
		return walked{found, p.Offset(), err}
	}
}

// headLen is the size of what comes before the operations of a valid body.
func headLen(s *side, body []byte, ops any) int {
	n := len(body)
	switch ops := ops.(type) {
	case []nfsv4.NfsArgop4:
		for _, o := range ops {
			n -= o.GetEncodedSizeBytes()
		}
	case []nfsv4.NfsResop4:
		for _, o := range ops {
			n -= o.GetEncodedSizeBytes()
		}
	}
	return n
}

// compare holds the walker against the oracle over one body, valid or not.
func compare(t *testing.T, p *ulb.Plan, s *side, body []byte) {
	t.Helper()
	ops, n, oracle := s.whole(bytes.NewReader(body))
	got := walkBody(p, s, body, ops)
	switch {
	case oracle == nil:
		want := walked{items(ops, headLen(s, body[:n], ops)), int(n), nil}
		if got.err != nil || got.end != want.end || !slices.Equal(got.items, want.items) {
			t.Fatalf("got %+v, want %+v for % x", got, want, body)
		}
	case got.err == nil && !pickier(oracle):
		t.Fatalf("walked to %d of %d, but go-xdr: %v for % x", got.end, len(body), oracle, body)
	case got.err != nil && !errors.Is(got.err, ulb.ErrMalformed) && !errors.Is(got.err, ulb.ErrUnknown) && !errors.Is(got.err, ulb.ErrUnplanned):
		t.Fatalf("error %v", got.err)
	}
}

var sides = map[string]*side{"arguments": &callSide, "results": &replySide}

// TestEveryOperation draws bodies of each operation alone, and changes them.
func TestEveryOperation(t *testing.T) {
	for name, s := range sides {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var p ulb.Plan
			for _, o := range s.ops {
				if beyondOracle(o.number) {
					continue
				}
				draws := 30
				if slices.Contains([]uint32{12, 18, 42, 51, 56}, o.number) { // many arms
					draws = 200
				}
				for range draws {
					body := append(s.head("", 1), s.op(r, o.number)...)
					compare(t, &p, s, body)
					for range 10 {
						compare(t, &p, s, mutated(r, body))
					}
				}
			}
		})
	}
}

// TestCompounds draws bodies of several operations, and changes them.
func TestCompounds(t *testing.T) {
	for name, s := range sides {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			var p ulb.Plan
			for range 100 {
				body := s.compound(r, r.IntN(8))
				compare(t, &p, s, body)
				for range 20 {
					compare(t, &p, s, mutated(r, body))
				}
			}
		})
	}
}

// mutated changes a word or two, or cuts the body short.
func mutated(r *rand.Rand, body []byte) []byte {
	body = bytes.Clone(body)
	d := dice{r: r, left: 1 << 20}
	for range 1 + r.IntN(2) {
		if at := r.IntN(len(body)/4) * 4; r.IntN(8) == 0 {
			body = body[:at+4]
		} else {
			_, _ = d.Read(body[at : at+4])
		}
	}
	return body
}

// FuzzCompound holds the walker against go-xdr over any bytes.
func FuzzCompound(f *testing.F) {
	order := []*side{&callSide, &replySide}
	r := rand.New(rand.NewPCG(5, 6))
	for i, s := range order {
		for range 8 {
			f.Add(uint8(i), s.compound(r, 1+r.IntN(4)))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		var p ulb.Plan
		compare(t, &p, order[int(which)%len(order)], body)
	})
}
