package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// placeReply lays out a reply in at most most transmissions of at most limit bytes. It
// places as many of the items directed to target segments as fit, and leaves out the last
// ones. It returns what goes into the first transmission, or false if no item fits.
func (r *Responder) placeReply(c *Call, streamLen int, items []chunk.Item, limit, most int, chosen bool) (inline []chunk.Piece, ok bool) {
	x, s := c.group, r.chars.Targets.Peer(&r.chars.Told.Buffer)
	may := sending{first: len(items), room: s.Room(limit) * most, chosen: chosen}
	for ; may.first > 0; may.first = int(x.layout.Sources[len(x.layout.Sources)-1]) {
		x.directItems(&c.header, items, may)
		if len(x.layout.Sources) == 0 {
			return nil, false
		}
		m := placement.Message{
			Header: rpcrdma2.OptionalSize(x.resp.Size()), Continued: transmission.ContinueSize, Payload: chunk.PiecesLength(streamLen, items),
			Limit: limit, Most: most,
		}
		if x.layout.Plan(s, &m) {
			return r.placed(c, streamLen, items), true
		}
	}
	return nil, false
}

// placed builds the answer from the layout of a reply.
func (r *Responder) placed(c *Call, streamLen int, items []chunk.Item) (inline []chunk.Piece) {
	x, h := c.group, &c.header
	c.pieces = chunk.AppendPieces(c.pieces[:0], streamLen, items)
	for k, i := range x.layout.Sources {
		it := &x.resp.Items[items[i].Into]
		it.Targets = append(it.Targets[:0], x.layout.Targets(k)...)
		items[i].Chunked = false // no RDMA Write
	}
	r.fillWrites(c, items)
	x.writtenItems(h)
	begin, inline := x.Place(&x.layout, c.pieces)
	x.resp.Count, x.resp.PayloadLength = uint32(len(x.layout.Transmissions)), uint32(begin)
	x.Head(&h.Header, &x.resp)
	return inline
}

// places reports whether Sends may place items of replies now.
func (r *Responder) places() bool {
	return r.settings.Extensions.Has(settings.ExtSendDDP) && r.chars.Targets.Peer(&r.chars.Told.Buffer).Targets() > 0
}
