package transmission

import (
	"errors"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Finder finds items of a group that arrived in target segments of our receives. Its
// storage is reused.
type Finder struct {
	resolver placement.Resolver
	spans    []placement.Span
}

// Begin starts with a complete group. A fault of the group is a *placement.Error.
func (f *Finder) Begin(t *placement.Targets, g *Gathering) error {
	return f.resolver.Begin(t.Told(), g.sends)
}

// Find appends the bytes of an item to dst, as parts of the receives.
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

// Fault returns the XMTERR for a group with an item where none can be. It returns false if
// err is another error.
func Fault(err error, g *Gathering) (e rpcrdma2.XmtError, is bool) {
	p, is := errors.AsType[*placement.Error](err)
	if !is {
		return e, false
	}
	e = rpcrdma2.XmtError{
		Bad:  rpcrdma2.Transmission{XID: g.XID, Direction: g.Direction, Number: uint32(p.Transmission)},
		Code: p.Code, Actual: p.Actual, Min: p.Min, Max: p.Max,
	}
	if e.Bad.Number > 0 { // the first transmission describes the items
		e.HasLead, e.Lead = true, rpcrdma2.Transmission{XID: g.XID, Direction: g.Direction}
	}
	return e, true
}

// ErrItem means that an item of a call is where none can be, or that a direction for an
// item of the reply is invalid.
var ErrItem = errors.New("transmission: invalid item or direction")

// leastCall is the size of the smallest RPC call header, in bytes (RFC 5531 §9). No item is
// in it.
const leastCall = 10 * xdr.Unit

// placedItem is an item of a call in target segments.
type placedItem struct {
	at    int // in the payload stream
	parts [2]int
}

// Items are the items of a call, in order.
type Items struct {
	Finder
	items []placedItem
	parts [][]byte // of all
}

// Locate checks the positions of a call's items. It finds the items in target segments, and
// where they belong in the payload stream.
//
// rtrext §9.5 has no error for a displacement: BADOFF is about an offset "as part of an
// xmddp_loc". So Locate returns ErrItem, as for a wrong position in a read list.
func (p *Items) Locate(t *placement.Targets, g *Gathering, items []rpcrdma2.Item) error {
	p.items, p.parts = p.items[:0], p.parts[:0]
	stream := placement.NewStream(g.Size, leastCall)
	begun, apart := false, 0 // length of the items so far, in bytes
	for i := range items {
		it := &items[i]
		if it.Length == 0 {
			return ErrItem
		}
		if stream.Item(it) != nil {
			return ErrItem
		}
		at := int(it.Disp) - apart
		apart += xdr.Padded(int(it.Length))
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

// Forget drops all references to receives.
func (p *Items) Forget() {
	clear(p.parts)
	p.items, p.parts = p.items[:0], p.parts[:0]
}

// Insert puts the items, in order, among those of the arguments, which begin at byte n of
// the payload stream. ok is false if an item lies before that.
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
