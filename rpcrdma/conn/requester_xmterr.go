package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// XMTERR ends a transmission group, not the connection (rtrext §9.5). Its header
// has the XID of that group. Its body names the transmission in which the error
// was found: of the group, or another message that came before the group's end,
// with the direction of that message. If it is not the group's first, lead is. An
// XMTERR of a responder is the answer to the call. One of a requester is about a
// reply; like a DONE it gets no answer, and takes the credit of the call until an
// answer shows that it has arrived.

// refused takes an XMTERR: the call was not made. It is made again without
// transmissions.
func (r *Requester) refused(recv uint32, inv Invalidation, acts []Action) []Action {
	h := &r.header
	o, known := r.awaits(h.XID)
	var e rpcrdma2.XmtError
	err := e.Decode(h.Info)
	if !known {
		r.Counters.Stray++
		return r.ignore(recv, inv, acts)
	}
	if inv.Did { // nothing was looked at
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

// astray takes an XMTCONT that continues nothing. One at a time is complained
// of, and only with a credit to spare, as none comes back for it.
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

// complain has the peer told what is wrong with its reply.
func (r *Requester) complain(e rpcrdma2.XmtError, acts []Action) []Action {
	r.complaints = append(r.complaints, e)
	r.spend.Owe()
	return append(acts, Complain{})
}

// Complaint is the event that the header of a Complain action goes out, which
// it gives; it is valid until the next event. Complaints go out in the order of
// their actions.
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
