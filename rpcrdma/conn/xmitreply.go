package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// shapeGroup has the reply to a call in transmissions travel so, too: in as
// many as our limit and the caller's receives allow. It gives what goes with the
// first. false is that this can't be; a reply chunk is left, if there is one.
func (r *Responder) shapeGroup(c *Call, streamLen int, items []chunk.Item) (inline []chunk.Piece, ok bool) {
	x, h := c.group, &c.header
	most := min(c.ReplySends(), int(r.xmit.limit()))
	if r.places() {
		x.directItems(h, items, true)
		for _, limit := range [...]uint32{r.SendLimit(), r.PeerReceive()} { // the second as the caller offered nothing else
			if inline, ok = r.placeReply(c, streamLen, items, int(limit), most); ok {
				return inline, true
			}
		}
	}
	x.directItems(h, items, false)
	payload, first := chunk.PiecesLength(streamLen, items), rpcrdma2.OptionalSize(x.resp.Size())
	limit := int(r.SendLimit())
	n := groupCount(payload, first, limit)
	if (n == 0 || n > most) && !h.HasReply { // as long as the peer was told at connect
		limit = int(r.PeerReceive())
		n = groupCount(payload, first, limit)
	}
	if n == 0 || n > most {
		return nil, false
	}
	c.pieces = chunk.AppendPieces(c.pieces[:0], streamLen, items)
	r.fillWrites(c, items)
	x.writtenItems(h)
	begin, inline := x.split(c.pieces, payload, first, limit)
	x.resp.Count, x.resp.PayloadLength = uint32(n), uint32(begin)
	x.head(h, &x.resp)
	return inline, true
}

// directItems does with the items of a reply what the call directs, and notes
// in resp what becomes of each direction: the first is for the first item, and so
// on. What may go by Send is noted to be laid out if places is set. What fits
// nowhere stays in the payload stream.
func (x *callGroup) directItems(h *Header, items []chunk.Item, places bool) {
	x.resp.Items = x.resp.Items[:0]
	x.layout.forget()
	for i := range items {
		items[i].Chunked = false
	}
	for i := range x.req.Results {
		for j := range x.req.Results[i].Items {
			k := len(x.resp.Items)
			it := more(&x.resp.Items)
			*it = rpcrdma2.Item{Place: rpcrdma2.NoItem, Segments: it.Segments[:0], Targets: it.Targets[:0]}
			if k >= len(items) {
				continue
			}
			it.Disp, it.Length = uint32(chunk.Position(items, k)), uint32(items[k].Len)
			it.Place = placement.Choose(&x.req.Results[i].Items[j], items[k].Len, places)
			items[k].Chunked = it.Place != rpcrdma2.TooShort
			switch it.Place {
			case rpcrdma2.ExplicitRDMA:
				it.Segments = append(it.Segments, h.Writes[k]...)
			case rpcrdma2.TargetBuffer:
				x.layout.add(chunk.Source(k), items[k].Len)
			}
		}
	}
}

// writtenItems notes in resp what is written into each segment.
func (x *callGroup) writtenItems(h *Header) {
	for k := range x.resp.Items {
		if it := &x.resp.Items[k]; it.Place == rpcrdma2.ExplicitRDMA {
			copy(it.Segments, h.Writes[k])
		}
	}
}
