package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// shapeGroup has the reply to a call in transmissions travel so, too: in as
// many as our limit and the caller's receives allow. It gives what goes with the
// first. false is that this can't be; a reply chunk is left, if there is one.
func (r *Responder) shapeGroup(c *Call, streamLen int, items []chunk.Item) (inline []chunk.Piece, ok bool) {
	x, h := c.group, &c.header
	if !x.directItems(h, items) {
		return nil, false
	}
	payload, first := chunk.PiecesLength(streamLen, items), rpcrdma2.OptionalSize(x.resp.Size())
	most := min(c.ReplySends(), int(r.xmit.limit()))
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

// directItems does with the items of a reply what the call directs, as far as
// that is RDMA, and notes in resp what becomes of each direction: the first is
// for the first item, and so on. false is that an item does not fit.
func (x *callGroup) directItems(h *Header, items []chunk.Item) bool {
	x.resp.Items = x.resp.Items[:0]
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
			d := &x.req.Results[i].Items[j]
			if it.Place = choose(d, uint32(items[k].Len)); it.Place != rpcrdma2.ExplicitRDMA {
				continue
			}
			if uint64(items[k].Len) > chunk.Capacity(h.Writes[k]) {
				return false
			}
			items[k].Chunked = items[k].Len > 0
			it.Segments = append(it.Segments, h.Writes[k]...)
		}
	}
	return true
}

// writtenItems notes in resp what is written into each segment.
func (x *callGroup) writtenItems(h *Header) {
	for k := range x.resp.Items {
		if it := &x.resp.Items[k]; it.Place == rpcrdma2.ExplicitRDMA {
			copy(it.Segments, h.Writes[k])
		}
	}
}

// choose says what becomes of an item of n bytes that d directs. What would go
// by Send stays in the payload stream.
func choose(d *rpcrdma2.ResultItem, n uint32) rpcrdma2.Placement {
	switch {
	case n < d.MinLength, d.Place == rpcrdma2.TargetBuffer, d.Place == rpcrdma2.BySize && n < d.Threshold:
		return rpcrdma2.TooShort
	}
	return rpcrdma2.ExplicitRDMA
}
