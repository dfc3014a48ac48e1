package nfs

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"
	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// feeder gives a body to a plan in pieces, as it would come from a socket, and
// takes the items out of it.
type feeder struct {
	plan  *ulb.Plan
	body  []byte
	piece func(limit int) int // size of the next piece, at least 1
	take  func(limit int) int // how much of an item goes elsewhere

	at    int
	items []ulb.Item
	data  [][]byte
}

// run feeds the whole body.
func (f *feeder) run() error {
	for f.at < len(f.body) {
		n := f.piece(len(f.body) - f.at)
		for buf := f.body[f.at : f.at+n]; len(buf) > 0; {
			m, step, err := f.plan.Walk(buf)
			f.at += m
			buf = buf[m:]
			if err != nil {
				return err
			}
			if step == ulb.End {
				return f.plan.Finish()
			}
			if step == ulb.AtItem {
				took := f.item()
				if took > 0 {
					break // the rest of buf is not where it was
				}
			}
		}
	}
	for {
		_, step, err := f.plan.Walk(nil)
		if err != nil || step != ulb.AtItem {
			return f.plan.Finish()
		}
		f.item()
	}
}

// item notes the item that the walk is at, and takes some of its bytes.
func (f *feeder) item() int {
	n := f.plan.Results
	var it ulb.Item
	if f.plan.Current() < len(n) && n[f.plan.Current()].Pos == f.at {
		it = ulb.Item{Pos: f.at, Len: n[f.plan.Current()].Len}
	} else {
		it = f.plan.Items[f.plan.Current()]
	}
	f.items = append(f.items, it)
	f.data = append(f.data, bytes.Clone(f.body[f.at:f.at+it.Len]))
	took := f.take(min(f.plan.Pending(), len(f.body)-f.at))
	f.plan.Took(took)
	f.at += took
	return took
}

// checkPieces feeds a valid body in pieces and compares with the oracle.
func checkPieces(t *rapid.T, p *ulb.Plan, body []byte, want []ulb.Item, start func(total int)) {
	total := -1
	if rapid.Bool().Draw(t, "length known") {
		total = len(body)
	}
	start(total)
	largest := rapid.SampledFrom([]int{1, 2, 3, 5, 16, 1 << 20}).Draw(t, "largest piece")
	f := &feeder{plan: p, body: body,
		piece: func(limit int) int { return rapid.IntRange(1, min(limit, largest)).Draw(t, "piece") },
		take:  func(limit int) int { return rapid.IntRange(0, limit).Draw(t, "taken") }}
	if err := f.run(); err != nil {
		t.Fatalf("%v at %d of %d", err, f.at, len(body))
	}
	if p.Offset() != len(body) || !slices.Equal(f.items, want) {
		t.Fatalf("at %d of %d, items %+v, want %+v", p.Offset(), len(body), f.items, want)
	}
	for i, it := range want {
		if !bytes.Equal(f.data[i], body[it.Pos:it.Pos+it.Len]) {
			t.Fatalf("item %d: % x", i, f.data[i])
		}
	}
}

// TestPieces: a body that comes in pieces, some of whose items go elsewhere,
// is walked as the whole of it.
func TestPieces(t *testing.T) {
	for name, s := range map[string]*side{"arguments": &callSide, "results": &replySide} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			rapid.Check(t, func(t *rapid.T) {
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				body := s.compound(r, 1+r.IntN(6))
				ops, _, err := s.whole(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				var p ulb.Plan
				want := items(ops, headLen(s, body, ops))
				seen += len(want)
				if s == &callSide {
					checkPieces(t, &p, body, want, func(total int) { p.StartCall(registry, v4call(nil), total) })
					return
				}
				if err := p.Call(registry, asksFor(ops.([]nfsv4.NfsResop4))); err != nil {
					t.Fatal(err)
				}
				checkPieces(t, &p, body, want, p.StartReply)
			})
			if seen < 20 {
				t.Errorf("only %d items were seen", seen)
			}
		})
	}
}

// TestItemsBeforeTheyCome: Walk stops at an item as soon as its length word is
// there, and does not want its bytes.
func TestItemsBeforeTheyCome(t *testing.T) {
	var p ulb.Plan
	if err := p.Call(registry, v4call(join(header("", 0, 1), header(25, 0, 0, 0, 0, 0, 0, 1<<20)))); err != nil {
		t.Fatal(err)
	}
	const size = 1<<20 - 1
	head := join(header(0, "", 1), header(25, 0, 1, size))
	p.StartReply(len(head) + xdr.Padded(size))
	n, step, err := p.Walk(head)
	if n != len(head) || step != ulb.AtItem || err != nil || p.Current() != 0 || p.Pending() != 1<<20 {
		t.Fatalf("%d %v %v, item %d, pending %d", n, step, err, p.Current(), p.Pending())
	}
	p.Took(size)
	p.Took(1)
	if err := p.Finish(); err != nil {
		t.Error(err)
	}
	p.StartReply(len(head) + size - 4)
	if _, _, err := p.Walk(head); err == nil {
		t.Error("an item larger than its stream is taken")
	}
}

// FuzzPieces: whatever the bytes, pieces of one byte are walked as the whole.
func FuzzPieces(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 16 {
		f.Add(callSide.compound(r, 1+r.IntN(4)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var whole, p ulb.Plan
		want := whole.Call(registry, v4call(body))
		p.StartCall(registry, &oncrpc.Call{Program: program, Version: 4, Procedure: 1}, -1)
		var err error
		for at, step := 0, ulb.More; at < len(body) && step != ulb.End && err == nil; {
			var n int
			n, step, err = p.Walk(body[at : at+1])
			at += n
		}
		if err == nil {
			err = p.Finish()
		}
		if (err == nil) != (want == nil) || want == nil && (p.Offset() != whole.Offset() || !slices.Equal(p.Items, whole.Items)) || p.MaxReply != whole.MaxReply && want == nil {
			t.Fatalf("pieces: %v at %d, %+v; whole: %v at %d, %+v", err, p.Offset(), p.Items, want, whole.Offset(), whole.Items)
		}
	})
}
