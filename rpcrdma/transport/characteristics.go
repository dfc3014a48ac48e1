package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
)

// Transport characteristics: what both roles do for the core's part in them.

// say implements the Tell action: the message goes out after all that was
// submitted before.
func (l *link) say(msg []byte) {
	b := l.buffer(len(msg))
	if b == nil {
		return
	}
	copy(b.Bytes(), msg)
	o := l.sq.newOp(opTell, 0)
	o.signal = true
	o.hold(b)
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpSend, SGL: o.sgl(b.SGE(0, len(msg)))})
	l.stats.Sends++
	l.stats.BytesSent += uint64(len(msg))
	l.submit(o)
}

// resize implements the Resize action.
func (r *Requester) resize(n int) {
	r.rq.resize(n)
	r.resized()
}

// resized implements role.
func (r *Requester) resized() {
	r.acts = r.core.Resized(r.rq.below, len(r.rq.bufs), r.acts)
	r.carryOut()
}

// changed implements the Changed action: what the server takes in one Send is so
// for the role that answers it, too.
func (r *Requester) changed() { r.tellCallee() }

// greet begins to talk, once the connection is up.
func (r *Requester) greet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dead {
		r.acts = r.core.Greet(r.acts)
		r.carryOut()
	}
}

// resize implements the Resize action.
func (r *Responder) resize(n int) {
	r.rq.resize(n)
	r.resized()
}

// resized implements role.
func (r *Responder) resized() {
	r.acts = r.core.Resized(r.rq.below, len(r.rq.bufs), r.acts)
	r.carryOut()
}

// changed implements the Changed action: what the client takes in one Send is so
// for the role that calls it, too. Our receives may become smaller, but not less
// than what every peer makes: replies are planned for that.
func (r *Responder) changed() {
	q := r.caller.req
	if q == nil {
		return
	}
	q.core.Connected(r.core.PeerReceive(), r.caller.peerSend)
	r.tellCaller(q)
}

// tellCaller tells the role that calls the client what that told of itself, and
// what it may count on of our receives.
func (r *Responder) tellCaller(q *Requester) {
	if c := r.core.Characteristics(); c.Spoken {
		q.core.Heard(&c.Peer)
		q.core.PlanReceives(rpcrdma2.DefaultReceiveSize)
	}
}

// Characteristics are a connection's transport characteristics.
type Characteristics = conn.Characteristics
