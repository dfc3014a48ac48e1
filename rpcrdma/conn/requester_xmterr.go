package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// XMTERR ends a transmission group, not the connection (rtrext §9.5). Its header has the
// XID of that group. Its body names the transmission with the error. That is one of the
// group, or another message that came before the group was complete. For the latter, the
// body has the direction of that message and the lead field. The XMTERR of a responder
// answers the call. The XMTERR of a requester concerns a reply. Like a DONE, it gets no
// answer, and holds the call's credit until a later answer shows that it arrived.

// refused processes an XMTERR that answers a call: the call was not executed. It is made
// again without transmissions.
func (r *Requester) refused(recv uint32, inv Invalidation, acts []Action) []Action {
	h := &r.header
	o, known := r.awaits(h.XID)
	var e rpcrdma2.XmtError
	err := e.Decode(h.Info)
	if !known || (o != nil && !o.transmitted) {
		r.Counters.Stray++
		return r.ignore(recv, inv, acts)
	}
	if inv.Did { // the peer did not process the call
		return append(acts, Fail{Err: ErrInvalidated})
	}
	delete(r.sent, h.XID)
	r.Counters.Errors++
	if o == nil {
		r.Counters.Stray++
		r.settle(h.XID, h.Credits)
		return r.wake(r.giveBack(recv, acts))
	}
	r.negotiation.open = false
	r.answered(o, h.Credits)
	if err != nil || e.Group().Direction != rpcrdma2.Call {
		o.Err = ErrBadReply
	} else {
		r.Counters.GroupsRefused++
		o.Err, o.direct, o.Sent, o.refused = ErrReplan, true, false, true
	}
	return r.wake(r.finish(o, r.giveBack(recv, acts)))
}

// astray processes an XMTCONT that continues nothing. It complains about one at a time, and
// only with a credit to spare, because no answer returns that credit.
func (r *Requester) astray(recv uint32, inv Invalidation, acts []Action) []Action {
	r.Counters.Stray++
	var c rpcrdma2.XmtCont
	if c.Decode(r.header.Info) == nil && r.spend.Dones() == 0 && r.spend.Can() && r.transmits() {
		acts = r.complain(rpcrdma2.XmtError{
			Bad: rpcrdma2.Transmission{XID: r.header.XID, Direction: rpcrdma2.Reply, Number: c.Number}, Code: rpcrdma2.BadContinuation,
		}, acts)
	}
	return r.ignore(recv, inv, acts)
}

// complain asks to report to the peer what is wrong with its reply.
func (r *Requester) complain(e rpcrdma2.XmtError, acts []Action) []Action {
	r.complaints = append(r.complaints, e)
	r.spend.Owe()
	return append(acts, Complain{})
}

// Complaint is the event that the message of a Complain action goes out. It returns the
// header, which is valid until the next event. Complaints go out in the order of their
// actions.
func (r *Requester) Complaint() (h Header) {
	r.donesSent++
	r.Counters.Complaints++
	e := &r.complaints[0]
	r.info = e.Append(r.info[:0])
	h.XID, h.Version, h.Credits = e.Group().XID, rpcrdma2.Version, r.spend.Max()
	r.complaints = slices.Delete(r.complaints, 0, 1)
	h.Proc, h.Direction = rpcrdma2.Optional, rpcrdma2.Call
	h.Option, h.Info = rpcrdma2.OptXmtError, r.info
	return h
}
