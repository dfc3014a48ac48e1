package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// resized implements role.
func (r *Responder) resized() {
	r.do(r.core.Resized(r.rq.below, len(r.rq.bufs), r.acts))
}

// changed implements the Changed action: the role that calls the client uses the Send size
// that the client takes, too. Replies of the client are planned for the size that every
// peer makes, so our receives may become smaller, but not less than that.
func (r *Responder) changed() {
	if r.core.NoBackward() {
		r.caller.wake()
	}
	q := r.caller.req
	if q == nil {
		return
	}
	q.core.Connected(r.core.AgreedReceive(), r.caller.peerSend)
	r.tellCaller(q)
}

// tellCaller gives the characteristics of the client to the role that calls the client, and
// the receive size to plan the client's replies for.
func (r *Responder) tellCaller(q *Requester) {
	if c := r.core.Characteristics(); c.Spoken {
		q.core.PlanReceives(rpcrdma2.DefaultReceiveSize)
		q.do(q.core.Heard(&c.Peer, q.acts))
	}
}

// Characteristics are a connection's transport characteristics.
type Characteristics = conn.Characteristics
