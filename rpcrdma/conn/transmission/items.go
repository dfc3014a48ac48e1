package transmission

import (
	"errors"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Finder finds items of a group that arrived in target segments of our receives.
// Its storage is used again.
type Finder struct {
	resolver placement.Resolver
	spans    []placement.Span
}

// Begin begins with a group that is whole. A fault of the group is a
// *placement.Error.
func (f *Finder) Begin(t *placement.Targets, g *Gathering) error {
	return f.resolver.Begin(t.Told(), g.sends)
}

// Find appends the parts that an item is in to dst: bytes of the receives.
func (f *Finder) Find(dst [][]byte, g *Gathering, it *rpcrdma2.Item) ([][]byte, error) {
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

// Fault makes what XMTERR says of a group with an item where none can be;
// false is that err is something else.
func Fault(err error, g *Gathering) (e rpcrdma2.XmtError, is bool) {
	p, is := errors.AsType[*placement.Error](err)
	if !is {
		return e, false
	}
	e = rpcrdma2.XmtError{
		Bad:  rpcrdma2.Transmission{XID: g.XID, Direction: g.Direction, Number: uint32(p.Transmission)},
		Code: p.Code, Actual: p.Actual, Min: p.Min, Max: p.Max,
	}
	if e.Bad.Number > 0 { // the items are told in the first
		e.HasLead, e.Lead = true, rpcrdma2.Transmission{XID: g.XID, Direction: g.Direction}
	}
	return e, true
}

// ErrItem means that an item of a call is where none can be, or that a direction for
// one of the reply makes no sense.
var ErrItem = errors.New("transmission: item or direction that makes no sense")

// leastCall is the least header of an RPC call, in bytes (RFC 5531 §9). No item
// is in it.
const leastCall = 10 * xdr.Unit

// placedItem is an item of a call in target segments.
type placedItem struct {
	at    int // in the payload stream
	parts [2]int
}

// Items are those of a call, in order.
type Items struct {
	Finder
	items []placedItem
	parts [][]byte // of all
}

// Locate checks where the items of a call are, and finds those in target
// segments and where in the payload stream they belong.
//
// rtrext §9.5 has no error for a displacement: BADOFF is about an offset "as
// part of an xmddp_loc". So it is ErrItem, as a position in a read list would be.
func (p *Items) Locate(t *placement.Targets, g *Gathering, items []rpcrdma2.Item) error {
	p.items, p.parts = p.items[:0], p.parts[:0]
	stream := placement.NewStream(g.Size, leastCall)
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
			if err := p.Begin(t, g); err != nil {
				return err
			}
		}
		from := len(p.parts)
		var err error
		if p.parts, err = p.Find(p.parts, g, it); err != nil {
			return err
		}
		p.items = append(p.items, placedItem{at: at, parts: [2]int{from, len(p.parts)}})
	}
	return nil
}

// Forget lets the receives go.
func (p *Items) Forget() {
	clear(p.parts)
	p.items, p.parts = p.items[:0], p.parts[:0]
}

// Insert puts the items into those of the arguments, which begin at byte n of
// the payload stream, in order. It fails when an item lies before that.
func (p *Items) Insert(args []oncrpc.Item, n int) (all []oncrpc.Item, ok bool) {
	for i := range p.items {
		it := &p.items[i]
		if it.at < n {
			return args, false
		}
		parts := p.parts[it.parts[0]:it.parts[1]:it.parts[1]]
		pos := it.at - n
		k := len(args)
		for k > 0 && args[k-1].Pos > pos {
			k--
		}
		args = slices.Insert(args, k, oncrpc.Item{Pos: pos, Data: parts[0], More: parts[1:]})
	}
	return args, true
}
