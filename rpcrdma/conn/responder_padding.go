package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// pad turns an inline reply into RDMA_MSGP if padding is on, useful for the reply, and
// fits.
func (r *Responder) pad(c *Call, h *Header, inline []chunk.Piece) []chunk.Piece {
	if h.Proc != rpcrdma1.Msg || len(h.Reads) > 0 || !versionOf(h.Version).pads() {
		return inline
	}
	pad, ok := r.padding.plan(inline, h.Size(), int(r.SendLimit()))
	if !ok {
		return inline
	}
	h.Proc, h.Align, h.Thresh = rpcrdma1.MsgP, pad.Align, pad.Thresh
	c.padded = appendPadded(c.padded[:0], inline, pad)
	r.padding.sent++
	return c.padded
}
