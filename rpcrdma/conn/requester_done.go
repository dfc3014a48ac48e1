package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// owe asks to send a DONE for the reply to xid. The DONE holds the call's credit until it
// is known to have arrived.
func (r *Requester) owe(xid uint32, acts []Action) []Action {
	r.spend.Owe()
	return append(acts, SendDone{XID: xid})
}

// Done is the event that the DONE of a SendDone action goes out. It returns the header.
func (r *Requester) Done(xid uint32) Header {
	r.donesSent++
	return Header{rpcrdma2.Header{Header: rpcrdma1.Header{
		XID: xid, Version: rpcrdma1.Version, Credits: r.spend.Max(), Proc: rpcrdma1.Done,
	}}}
}

// answered takes back the credits of an answered call. The answer also shows that all DONEs
// sent before the call have arrived, because messages stay in order.
func (r *Requester) answered(o *Outgoing, credits uint32) {
	r.spend.AnswerGroup(o.uses, credits)
	r.release(o)
	if n := o.donesBefore - r.donesArrived; int32(n) > 0 {
		r.spend.DonesArrived(n)
		r.donesArrived = o.donesBefore
	}
}
