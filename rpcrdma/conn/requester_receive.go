package conn

import (
	"errors"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Invalidation is the effect of a Send With Invalidate: the STag of ours that the device
// revoked.
type Invalidation struct {
	Did  bool
	RKey uint32
}

// Arrived is the event that a message arrived for this role.
func (r *Requester) Arrived(a *Arrival, acts []Action) []Action {
	if r.lost != nil {
		return acts
	}
	if r.gather.Open && !a.continues(rpcrdma2.Reply) {
		acts = r.Interrupted(a, acts)
	}
	r.header, a.header = a.header, r.header
	h, err, recv, inv := &r.header, a.err, a.Recv, a.Invalidation
	if r.gather.Open {
		return r.more(recv, inv, a.body, acts)
	}
	if operates(h, err) {
		return r.operate(recv, inv, a.body, acts)
	}
	r.spend.Arrive()
	if errors.Is(err, rpcrdma1.ErrShort) || errors.Is(err, rpcrdma1.ErrVersion) {
		r.Counters.Dropped++
		return r.ignore(recv, inv, acts)
	}
	o, known := r.sent[h.XID]
	if !known || (o != nil && o.state != outSent) || a.Call || a.early {
		r.Counters.Stray++
		return r.ignore(recv, inv, acts)
	}
	return r.replied(o, a, acts)
}

// replied processes the answer to one of our calls. o is nil if the call was given up.
func (r *Requester) replied(o *Outgoing, a *Arrival, acts []Action) []Action {
	h, err, recv := &r.header, a.err, a.Recv
	again, none := r.negotiation.answer(h, err == nil)
	if none != nil {
		return append(acts, Fail{Err: none})
	}
	if o == nil && r.chars.Asks(h.XID) {
		return r.refusedOperation(recv, a.Invalidation, acts)
	}
	if !r.revoked(h.XID, o, a.Invalidation) {
		return append(acts, Fail{Err: ErrInvalidated})
	}
	delete(r.sent, h.XID)
	if r.newest = max(r.newest, a.seq); a.seq < r.newest { // a long one: a later answer has the newer grant
		h.Credits = r.spend.Granted()
	}
	if o == nil { // only its credit matters
		r.Counters.Stray++
		reads := a.reads || r.readsFor(h.XID)
		r.settle(h.XID, h.Credits)
		if err == nil && len(h.Reads) > 0 && reads {
			acts = r.owe(h.XID, acts)
		}
		return r.wake(r.giveBack(recv, acts))
	}
	r.answered(o, h.Credits)
	switch {
	case err != nil:
		o.Err = ErrBadReply
	case again:
		o.Err, o.Sent, o.refused = ErrReplan, false, true
	default:
		acts = r.take(o, a, acts)
	}
	acts = r.giveBack(recv, acts)
	switch {
	case o.state == outReading:
		return r.wake(acts)
	case again:
	case o.Err != nil:
		r.Counters.Errors++
	default:
		r.Counters.Replies++
	}
	return r.wake(r.finish(o, acts))
}

// Interrupted is the event that another message came between the transmissions of a reply,
// and ends the reply. The sender may send nothing between them (rtrext §4.2).
func (r *Requester) Interrupted(a *Arrival, acts []Action) []Action {
	if r.lost != nil {
		return acts
	}
	a.interrupt(&r.gather)
	return r.gathered(nil, acts)
}

// ignore drops a message. If the message revoked our memory without answering one of our
// calls, the connection ends.
func (r *Requester) ignore(recv uint32, inv Invalidation, acts []Action) []Action {
	if inv.Did {
		return append(acts, Fail{Err: ErrInvalidated})
	}
	return r.giveBack(recv, acts)
}

func (r *Requester) giveBack(recv uint32, acts []Action) []Action {
	return r.wantReceives(append(acts, giveBack(recv, r.spend.Repost())))
}

// revoked records the invalidation that came with an answer to a call. o is nil if the call
// was given up; its windows may still be in fencing. It returns false if the peer revoked
// memory of another call.
func (r *Requester) revoked(xid uint32, o *Outgoing, inv Invalidation) bool {
	switch {
	case !inv.Did:
		return true
	case o != nil:
		return o.revoke(inv.RKey)
	}
	return slices.ContainsFunc(r.fencing, func(o *Outgoing) bool { return o.XID == xid && o.revoke(inv.RKey) })
}

// revoke records that the peer invalidated the window with rkey.
func (o *Outgoing) revoke(rkey uint32) bool {
	for i := range o.Windows {
		if w := &o.Windows[i]; w.RKey == rkey && !w.Revoked {
			w.Revoked = true
			return true
		}
	}
	return false
}

// take checks a reply against its call and records where it is. Nothing that the peer wrote
// is read before the windows are revoked.
func (r *Requester) take(o *Outgoing, a *Arrival, acts []Action) []Action {
	h, body := &r.header, a.body
	switch {
	case h.Proc == rpcrdma1.Error:
	case h.Version != o.version: // a reply has the rdma_vers of its call
		o.Err = ErrBadReply
		return acts
	case len(h.Reads) > 0:
		return r.takeReads(o, a, acts)
	}
	switch h.Proc {
	case rpcrdma1.Error:
		o.Err = &PeerError{Code: h.Err, Version: h.Version, Low: h.Low, High: h.High}
	case rpcrdma1.Msg, rpcrdma1.MsgP:
		if o.Err = r.takePadding(o); o.Err != nil {
			return acts
		}
		written, err := r.returned(o)
		if !isReply(body, o.XID) || err != nil || written != 0 {
			o.Err = ErrBadReply
			return acts
		}
		o.Parts = append(o.Parts[:0], body)
		acts = append(acts, Take{o})
	case rpcrdma1.NoMsg:
		written, err := r.returned(o)
		if err != nil || written == 0 {
			o.Err = ErrBadReply
			return acts
		}
		o.Long = written
	default:
		o.Err = ErrBadReply
	}
	return acts
}

// returned checks the write list and the reply chunk of a reply: they must be those of the
// call, with the lengths that the peer wrote. It returns the bytes in the reply chunk.
func (r *Requester) returned(o *Outgoing) (reply int, err error) {
	h, sent := &r.header, &o.Header
	if len(h.Writes) != len(sent.Writes) || (h.HasReply && !sent.HasReply) {
		return 0, ErrBadReply
	}
	for i := range h.Writes { // chunks match results in order
		n, err := chunk.Returned(sent.Writes[i], h.Writes[i])
		if err != nil {
			return 0, err
		}
		// The peer may have counted roundup padding (RFC 5666 §3.7).
		o.Written[i] = min(n, o.Results[i])
	}
	if !h.HasReply {
		return 0, nil
	}
	return chunk.Returned(sent.Reply, h.Reply)
}

// invalidated records that a message with xid, which may answer one of our calls,
// invalidated memory. It returns false if the memory does not belong to that call.
func (r *Requester) invalidated(xid uint32, inv Invalidation) bool {
	o, known := r.sent[xid]
	return known && (o == nil || o.state == outSent) && r.revoked(xid, o, inv)
}
