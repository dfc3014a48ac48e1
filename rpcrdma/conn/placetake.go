package conn

import (
	"errors"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// finder finds items of a group that arrived in target segments of our receives.
// Its storage is used again.
type finder struct {
	resolver placement.Resolver
	spans    []placement.Span
}

// begin begins with a group that is whole. What is wrong is a
// *placement.Error.
func (f *finder) begin(t *targets, g *gathering) error {
	return f.resolver.Begin(t.told(), g.sends)
}

// find appends the parts that an item is in to dst: bytes of the receives.
func (f *finder) find(dst [][]byte, g *gathering, it *rpcrdma2.Item) ([][]byte, error) {
	var err error
	if f.spans, err = f.resolver.Item(f.spans[:0], it); err != nil {
		return dst, err
	}
	for _, s := range f.spans {
		at := s.Off - g.sends[s.Transmission].Header
		dst = append(dst, g.bodies[s.Transmission][at:at+s.Len:at+s.Len])
	}
	return dst, nil
}

// groupFault makes what XMTERR says of a group with an item where none can be;
// false is that err is something else.
func groupFault(err error, g *gathering) (e rpcrdma2.XmtError, is bool) {
	p, is := errors.AsType[*placement.Error](err)
	if !is {
		return e, false
	}
	e = rpcrdma2.XmtError{
		Bad:  rpcrdma2.Transmission{XID: g.xid, Direction: g.dir, Number: uint32(p.Transmission)},
		Code: p.Code, Actual: p.Actual, Min: p.Min, Max: p.Max,
	}
	if e.Bad.Number > 0 { // the items are told in the first
		e.HasLead, e.Lead = true, rpcrdma2.Transmission{XID: g.xid, Direction: g.dir}
	}
	return e, true
}

// leastCall is the least header of an RPC call, in bytes (RFC 5531 §9). No item
// is in it.
const leastCall = 10 * xdr.Unit

// placedItem is an item of a call in target segments.
type placedItem struct {
	at    int // in the payload stream
	parts [2]int
}

// placedItems are those of a call, in order.
type placedItems struct {
	finder
	items []placedItem
	parts [][]byte // of all
}

// locate checks where the items of a call are, and finds those in target
// segments and where in the payload stream they belong.
//
// rtrext §9.5 has no error for a displacement: BADOFF is about an offset "as
// part of an xmddp_loc". So it is ErrItem, as a position in a read list would be.
func (p *placedItems) locate(t *targets, g *gathering, items []rpcrdma2.Item) error {
	p.items, p.parts = p.items[:0], p.parts[:0]
	stream := placement.NewStream(g.size, leastCall)
	begun, apart := false, 0 // bytes of the items before
	for i := range items {
		it := &items[i]
		if it.Length == 0 {
			return ErrItem
		}
		if stream.Item(it) != nil {
			return ErrItem
		}
		at := int(it.Disp) - apart
		apart += int(it.Length) + chunk.Pad(int(it.Length))
		if it.Place != rpcrdma2.TargetBuffer {
			continue
		}
		if !begun {
			begun = true
			if err := p.begin(t, g); err != nil {
				return err
			}
		}
		from := len(p.parts)
		var err error
		if p.parts, err = p.find(p.parts, g, it); err != nil {
			return err
		}
		p.items = append(p.items, placedItem{at: at, parts: [2]int{from, len(p.parts)}})
	}
	return nil
}

// forget lets the receives go.
func (p *placedItems) forget() {
	clear(p.parts)
	p.items, p.parts = p.items[:0], p.parts[:0]
}

// insert puts the items into those of the arguments, which begin at byte n of
// the payload stream, in order.
func (p *placedItems) insert(args []oncrpc.Item, n int) ([]oncrpc.Item, error) {
	for i := range p.items {
		it := &p.items[i]
		if it.at < n {
			return args, ErrChunkInHeader
		}
		parts := p.parts[it.parts[0]:it.parts[1]:it.parts[1]]
		pos := it.at - n
		k := len(args)
		for k > 0 && args[k-1].Pos > pos {
			k--
		}
		args = slices.Insert(args, k, oncrpc.Item{Pos: pos, Data: parts[0], More: parts[1:]})
	}
	return args, nil
}

// PlacedResult is a run of bytes of a result that came in Sends.
type PlacedResult struct {
	Result int
	Data   []byte
}

// takePlaced notes where result i is.
func (r *Requester) takePlaced(o *Outgoing, i int, it *rpcrdma2.Item) error {
	parts, err := r.finder.find(r.found[:0], &r.gather, it)
	for _, p := range parts {
		o.Placed = append(o.Placed, PlacedResult{i, p})
	}
	clear(parts)
	r.found = parts
	return err
}
