package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// shapeGroup sends the reply to a call in transmissions in transmissions as well: as many
// as our limit and the caller's receives allow. It returns what goes into the first one. It
// returns false if the reply does not fit. A reply chunk, if there is one, is then still
// unused.
func (r *Responder) shapeGroup(c *Call, streamLen int, items []chunk.Item) (inline []chunk.Piece, ok bool) {
	x, h := c.group, &c.header
	most := min(c.ReplySends(), int(r.xmit.limit()))
	if r.places() {
		if inline, ok = r.placeReply(c, streamLen, items, int(r.SendLimit()), most, true); ok {
			return inline, true
		}
		// If the caller offered nothing else, a Send may be longer.
		if inline, ok = r.placeReply(c, streamLen, items, int(r.PeerReceive()), most, false); ok {
			return inline, true
		}
	}
	x.directItems(h, items, sending{})
	payload, first := chunk.PiecesLength(streamLen, items), rpcrdma2.OptionalSize(x.resp.Size())
	limit := int(r.SendLimit())
	n := transmission.Count(payload, first, limit)
	if (n == 0 || n > most) && !h.HasReply { // as long as the peer learned at connect
		limit = int(r.PeerReceive())
		n = transmission.Count(payload, first, limit)
	}
	if n == 0 || n > most {
		return nil, false
	}
	c.pieces = chunk.AppendPieces(c.pieces[:0], streamLen, items)
	r.fillWrites(c, items)
	x.writtenItems(h)
	begin, inline := x.Split(c.pieces, payload, first, limit)
	x.resp.Count, x.resp.PayloadLength = uint32(n), uint32(begin)
	x.Head(&h.Header, &x.resp)
	return inline, true
}

// sending selects the results that may go by Send.
type sending struct {
	first  int  // only this many of them
	room   int  // only those of at most this many bytes
	chosen bool // including those that may also be written
}

// directItems follows the directions of the call for the items of a reply. It records in
// resp the outcome of each direction: exactly one item. Items that may go by Send are added
// to the layout. An item that fits nowhere stays in the payload stream.
func (x *callGroup) directItems(h *Header, items []chunk.Item, may sending) {
	x.resp.Items = x.resp.Items[:0]
	x.layout.Forget()
	for range h.Writes { // one for each direction
		it := xdr.Extend(&x.resp.Items)
		*it = rpcrdma2.Item{Place: rpcrdma2.NoItem, Segments: it.Segments[:0], Targets: it.Targets[:0]}
	}
	for k := range items {
		from := &items[k]
		if from.Chunked = false; from.Into < 0 {
			continue
		}
		it := &x.resp.Items[from.Into]
		it.Disp, it.Length = uint32(chunk.Position(items, k)), uint32(from.Len)
		d := placement.Direction(x.req.Results, from.Into)
		it.Place = placement.Choose(d, from.Len, k < may.first && from.Len <= may.room && (may.chosen || d.Place != rpcrdma2.Choice))
		from.Chunked = it.Place != rpcrdma2.TooShort
		switch it.Place {
		case rpcrdma2.ExplicitRDMA:
			it.Segments = append(it.Segments, h.Writes[from.Into]...)
		case rpcrdma2.TargetBuffer:
			x.layout.Add(chunk.Source(k), from.Len)
		}
	}
}

// writtenItems records in resp what is written into each segment.
func (x *callGroup) writtenItems(h *Header) {
	for k := range x.resp.Items {
		if it := &x.resp.Items[k]; it.Place == rpcrdma2.ExplicitRDMA {
			copy(it.Segments, h.Writes[k])
		}
	}
}
