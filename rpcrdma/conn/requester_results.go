package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// ranged reports whether the operations that ask for results are known and follow each
// other in the call.
func (o *Outgoing) ranged() bool {
	if len(o.Asked) != len(o.Results) {
		return false
	}
	last := xdr.Span{}
	for _, s := range o.Asked {
		if s != last && (s.Empty() || s.Begin < last.End || s.End > o.virtualLength()) {
			return false
		}
		last = s
	}
	return !last.Empty()
}

// direct adds the direction for result i to the set of its operation. Directions are in the
// order of results.
func (x *outgoingGroup) direct(o *Outgoing, i int, place rpcrdma2.Placement) *rpcrdma2.ResultItem {
	asked := xdr.Span{End: o.virtualLength()}
	if x.ranged {
		asked = o.Asked[i]
	}
	if n := len(x.req.Results); n == 0 || x.req.Results[n-1].Begin != uint32(asked.Begin) {
		set := xdr.Extend(&x.req.Results)
		*set = rpcrdma2.ResultSet{Begin: uint32(asked.Begin), End: uint32(asked.End), Items: set.Items[:0]}
	}
	it := xdr.Extend(&x.req.Results[len(x.req.Results)-1].Items)
	*it = rpcrdma2.ResultItem{MinLength: 1, Place: place, Segments: it.Segments[:0]}
	return it
}

// offerResult offers memory into which the peer can write result i. d is the result's
// direction. It returns how many bytes the reply's item for it adds to its header.
func (r *Requester) offerResult(o *Outgoing, i int, d *rpcrdma2.ResultItem) (header int) {
	n := o.Results[i]
	segments := 1 + r.offer(o, WriteResult, i, max(xdr.Padded(n), 4))
	d.Segments = slices.Grow(d.Segments, segments)[:segments]
	return writtenItemSize + segmentSize*segments
}

// Sizes in bytes of an XMTRESP item that was written, without its segments, and of one in
// target segments, without their numbers.
const (
	writtenItemSize = 4 * 4
	placedItemSize  = 5 * 4
	responseSize    = 3 * 4 // of an XMTRESP without items
)

// largeResults returns how many results get write chunks or directions: all up to the last
// one of at least least bytes, because both match results in order.
func (o *Outgoing) largeResults(least int) (n int) {
	for i, size := range o.Results {
		if size >= least {
			n = i + 1
		}
	}
	return n
}

// inStream returns the largest payload stream of the reply, in bytes, when the first n
// results are not in it.
func (o *Outgoing) inStream(n int) int {
	rest := o.MaxReply
	for _, size := range o.Results[n:] {
		rest += xdr.Padded(size)
	}
	return rest
}

// planLongReply lets the peer write large results and send the rest of the reply in as many
// transmissions as needed. If that does not fit, the peer writes all results, and if that
// does not fit either, the whole reply.
func (r *Requester) planLongReply(o *Outgoing) {
	x, limit := o.xmit, int(o.inline)
	o.unwritten()
	for _, least := range [...]int{max(int(r.settings.DDPMinChunk), 1), 1} {
		o.Windows, x.req.Results = o.Windows[:0], x.req.Results[:0]
		rest, first := r.directResults(o, least)
		if need := transmission.Count(rest, first, limit); need > 0 && need <= r.replyLimit() {
			x.spare = uint32(need - 1)
			begin, each := transmission.Room(first, limit)
			x.keepShort(o, int(r.settings.DDPMinChunk), begin+int(x.spare)*each-rest)
			return
		}
	}
	segments := 1 + r.offer(o, WriteReply, 0, xdr.Padded(o.MaxReply))
	x.req.Reply = slices.Grow(x.req.Reply[:0], segments)[:segments]
	x.req.HasReply, x.spare = true, 0
}

// unwritten records that no result has come.
func (o *Outgoing) unwritten() {
	for range o.Results {
		o.Written = append(o.Written, 0)
	}
}

// directResults offers memory for the results of at least least bytes, and for those before
// them. It returns the largest payload stream of the reply and its largest first header, in
// bytes.
func (r *Requester) directResults(o *Outgoing, least int) (rest, first int) {
	n := o.largeResults(least)
	first = rpcrdma2.OptionalSize(responseSize)
	for i := range n {
		first += r.offerResult(o, i, o.xmit.direct(o, i, rpcrdma2.ExplicitRDMA))
	}
	return o.inStream(n), first
}

// keepShort keeps results in the payload stream that are shorter than least, as far as they
// fit into room. Both are in bytes.
func (x *outgoingGroup) keepShort(o *Outgoing, least, room int) {
	n := 0
	for i := range x.req.Results {
		n += len(x.req.Results[i].Items)
	}
	for k := range n {
		placement.Direction(x.req.Results, k).MinLength = uint32(max(min(least, room/n&^3, o.Results[k]), 1))
	}
}
