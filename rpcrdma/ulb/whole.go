package ulb

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Call plans for a whole call. Items of c.Args are separate: positions are offsets in
// c.Args.Stream. Bytes after the arguments are ignored. Values that exceed the Limits are
// lowered in c.Args.Stream.
func (p *Plan) Call(r *Registry, c *oncrpc.Call) error {
	p.StartCall(r, c, len(c.Args.Stream))
	return p.body(&c.Args)
}

// Reply finds the planned results in those of a whole successful reply, whose items are
// separate. Bytes after the results are ignored. Values that exceed the Limits are lowered
// in results.Stream.
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

// Pads returns the padding of the last body, until the next walk. ok is false if that is
// unknown, because no binding has walked all of the body.
func (p *Plan) Pads() (pads []walk.Pad, ok bool) {
	if p.err != nil || p.proc == nil || p.guarded == hidden || p.w.Left() > 0 {
		return nil, false
	}
	return p.w.Pads(), true
}

// walked reports whether the binding knows the body.
func (p *Plan) walked() bool { return p.proc != nil && p.guarded == bare }

// apart records that the current item is separate, as n bytes, which may include roundup
// padding (RFC 8166 §3.4.4).
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

// Find returns the offset of the length word of planned result i in results, the results of
// a successful reply. It returns -1 if this reply does not have the result or cannot be
// walked that far. apart[j] is the number of bytes of an earlier result j that are not in
// results, or 0. It can be used as the Find of a requester's results, called once for each,
// in order. Reply, called afterwards, finds them all, and what the reply has opened.
func (p *Plan) Find(results []byte, i int, apart []int) int {
	return p.through(results, i, apart, false)
}

// LowerReply lowers values that exceed the Limits in the results of a whole successful
// reply, as far as they can be walked. apart is as for Find, for all results. It is only
// needed if Told.
func (p *Plan) LowerReply(results []byte, apart []int) {
	p.through(results, maxItems, apart, true)
}

// through walks up to planned result i, or as far as it can. It returns the offset of the
// result's length word, or -1.
func (p *Plan) through(results []byte, i int, apart []int, lowers bool) int {
	p.StartReply(len(results))
	p.whole = true
	off := 0
	for {
		n, s, err := p.Walk(results[off:])
		off += n
		switch {
		case s == OverLimit: // current may be of an earlier walk
			if lowers {
				p.Lower(results[:off])
			}
		case err != nil || s == More || s == End || p.current > i:
			return -1
		case p.current == i:
			return off - xdr.Unit
		case p.skip(apart) != nil:
			return -1
		}
	}
}

// skip skips the current item if it is separate.
func (p *Plan) skip(apart []int) error {
	if j := p.current; j < len(apart) && apart[j] > 0 {
		return p.apart(apart[j])
	}
	return nil
}
