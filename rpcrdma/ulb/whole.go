package ulb

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Call plans for a whole call. Items of c.Args stay apart: positions are
// offsets in c.Args.Stream. Bytes after the arguments are not looked at. What is
// over the Limits is lowered in c.Args.Stream.
func (p *Plan) Call(r *Registry, c *oncrpc.Call) error {
	p.StartCall(r, c, len(c.Args.Stream))
	return p.body(&c.Args)
}

// Callback is Call for a call from a server to a client that has chosen the
// programs known.
func (p *Plan) Callback(r *Registry, known *Callbacks, c *oncrpc.Call) error {
	p.StartCallback(r, known, c, len(c.Args.Stream))
	return p.body(&c.Args)
}

// Reply finds the planned results in those of a whole successful reply, whose
// items stay apart. Bytes after the results are not looked at. What is over the
// Limits is lowered in results.Stream.
func (p *Plan) Reply(results *oncrpc.Payload) error {
	p.StartReply(len(results.Stream))
	return p.body(results)
}

// body walks over a whole body.
func (p *Plan) body(body *oncrpc.Payload) error {
	p.whole = true
	p.w.SetPadding(body.Padding)
	off, items := 0, body.Items
	for {
		n, s, err := p.Walk(body.Stream[off:])
		off += n
		switch {
		case err != nil:
			return err
		case s == AtItem && len(items) > 0 && items[0].Pos == off:
			if err := p.apart(items[0].Len()); err != nil {
				return err
			}
			items = items[1:]
		case s == OverLimit:
			p.Lower(body.Stream[:off])
		case s == AtItem:
		case p.walked() && len(items) > 0:
			p.err = ErrIneligible
			return p.err
		default:
			return p.Finish()
		}
	}
}

// Pads is where the body that was walked last has padding, until the next walk.
// ok is false when that is not known: there is no binding that has seen all of the body.
func (p *Plan) Pads() (pads []walk.Pad, ok bool) {
	if p.err != nil || p.proc == nil || p.guarded == hidden {
		return nil, false
	}
	return p.w.Pads(), true
}

// walked says whether the binding knows the body.
func (p *Plan) walked() bool { return p.proc != nil && p.guarded == bare }

// apart says that the item that the walk is at stands apart as n bytes, which
// may include roundup (RFC 8166 §3.4.4).
func (p *Plan) apart(n int) error {
	want := p.w.ItemLen()
	if n < want || n > xdr.Padded(want) {
		p.err = ErrIneligible
		return p.err
	}
	p.absent += xdr.Padded(want)
	p.w.Apart()
	return nil
}

// Find gives the offset of the length word of planned result i in results,
// those of a successful reply, -1 when this reply has none or can't be walked
// so far. apart[j] is the number of bytes of an earlier result j that stand
// apart, 0 when they are in results. It suits the Find of a requester's
// results, who calls it once for each, in order. Reply afterwards finds them
// all, and what the reply has opened.
func (p *Plan) Find(results []byte, i int, apart []int) int {
	p.startWhole(results)
	off := 0
	for {
		n, s, err := p.Walk(results[off:])
		off += n
		switch {
		case err != nil || s == More || s == End || p.current > i:
			return -1
		case s == OverLimit:
		case p.current == i:
			return off - xdr.Unit
		case p.skip(apart) != nil:
			return -1
		}
	}
}

// LowerReply lowers what is over the Limits in the results of a whole
// successful reply, as far as they can be walked. apart is as for Find, of all
// results. There is nothing to do for it unless Told.
func (p *Plan) LowerReply(results []byte, apart []int) {
	p.startWhole(results)
	off := 0
	for {
		n, s, err := p.Walk(results[off:])
		off += n
		switch {
		case err != nil || s == More || s == End:
			return
		case s == OverLimit:
			p.Lower(results[:off])
		case p.skip(apart) != nil:
			return
		}
	}
}

func (p *Plan) startWhole(results []byte) {
	p.StartReply(len(results))
	p.whole = true
}

// skip passes over the item that the walk is at, if it stands apart.
func (p *Plan) skip(apart []int) error {
	if j := p.current; j < len(apart) && apart[j] > 0 {
		return p.apart(apart[j])
	}
	return nil
}
