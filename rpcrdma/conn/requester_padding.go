package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"

// pad turns a planned call into RDMA_MSGP. size is the length of its header, in bytes. It
// leaves the plan unchanged if padding is of no use.
func (r *Requester) pad(o *Outgoing, size int) {
	pad, ok := r.padding.plan(o.pieces, size, int(r.SendLimit()))
	if !ok || o.reads() {
		return
	}
	o.Pad = pad
	r.padding.pieces = append(r.padding.pieces[:0], o.pieces...)
	o.pieces = appendPadded(o.pieces[:0], r.padding.pieces, pad)
}

// takePadding stores the padding of a reply, if it has any. It refuses a threshold below
// PadThresh: padding could then precede opaque data other than the call's results, which
// our caller does not know.
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
