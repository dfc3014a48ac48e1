package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// placeReply lays a reply out, whose items that go by Send directItems has
// chosen, in at most most transmissions of at most limit bytes, and says what
// goes with the first. False is that it can't be.
func (r *Responder) placeReply(c *Call, streamLen int, items []chunk.Item, limit, most int) (inline []chunk.Piece, ok bool) {
	x, h := c.group, &c.header
	if len(x.layout.sources) == 0 {
		return nil, false
	}
	m := placement.Message{
		Header: rpcrdma2.OptionalSize(x.resp.Size()), Continued: ContinueSize, Payload: chunk.PiecesLength(streamLen, items),
		Limit: limit, Most: most,
	}
	if !x.layout.lay(r.targets.peer(&r.told.Buffer), &m) {
		return nil, false
	}
	c.pieces = chunk.AppendPieces(c.pieces[:0], streamLen, items)
	for k, i := range x.layout.sources {
		it := &x.resp.Items[i] // items go with directions in order
		it.Targets = append(it.Targets[:0], x.layout.Targets(k)...)
		items[i].Chunked = false // no RDMA Write
	}
	r.fillWrites(c, items)
	x.writtenItems(h)
	begin, inline := x.place(&x.layout, c.pieces)
	x.resp.Count, x.resp.PayloadLength = uint32(len(x.layout.Transmissions)), uint32(begin)
	x.head(h, &x.resp)
	return inline, true
}

// places says whether items of replies may be placed by Sends now.
func (r *Responder) places() bool {
	return r.settings.Extensions.Has(ExtSendDDP) && r.targets.peer(&r.told.Buffer).Targets() > 0
}
