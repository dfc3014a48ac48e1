package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"

// pad makes a planned call RDMA_MSGP, as for replies. Its header has size bytes. The
// plan stays as it is if padding is of no use.
func (r *Requester) pad(o *Outgoing, size int) {
	pad, ok := r.padding.plan(o.pieces, size, int(r.SendLimit()))
	if !ok || o.reads() {
		return
	}
	o.Pad = pad
	r.padding.pieces = append(r.padding.pieces[:0], o.pieces...)
	o.pieces = appendPadded(o.pieces[:0], r.padding.pieces, pad)
}

// takePadding notes the padding of a reply, if it has any. Below PadThresh it
// could be before opaques that our caller can't know of: only the call's
// results are.
func (r *Requester) takePadding(o *Outgoing) (err error) {
	if r.header.Proc != rpcrdma1.MsgP {
		return nil
	}
	o.Padding, err = r.padding.check(&r.header)
	if err != nil || o.Padding.Thresh < PadThresh {
		return ErrBadReply
	}
	return nil
}

// Padding tells what is in force.
func (r *Requester) Padding() Padding { return r.padding.state() }
