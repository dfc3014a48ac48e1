package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// callee is what a requester has to answer calls of its server. link.mu guards
// it.
type callee struct {
	handler oncrpc.Handler // nil: there is none
	resp    *Responder     // nil until calls are to be taken
	ready   bool           // and there are receives for them
}

// takeCalls makes the role that answers calls of the server, if settings want
// it. Once it is there it stays while the connection lives: nothing tells the
// server that there are to be no more calls.
func (r *Requester) takeCalls(s *conn.Settings) {
	v := &r.callee
	if v.handler == nil || v.resp != nil || !s.Backchannel() {
		return
	}
	reverse := s.Reverse()
	v.resp = &Responder{link: r.link, handler: v.handler, peer: r.id.RemoteAddr(), memory: r.memory, reverse: true}
	v.resp.core = conn.NewResponder(conn.ResponderConfig{
		MaxReceives: r.maxReverse(),
		Receive:     uint32(r.rq.size),
		Reverse:     true,
		Settings:    &reverse,
	})
	v.resp.core.Beside(r.core)
	r.prepareCallee()
}

// prepareCallee posts the first receives for calls of the server. Without
// memory it is tried again with the next tick.
func (r *Requester) prepareCallee() {
	v := &r.callee
	if v.resp == nil || v.ready || r.dead {
		return
	}
	v.resp.acts = v.resp.core.Start(v.resp.acts)
	v.resp.carryOut()
	if v.ready = !r.dead && v.resp.core.Settle(); v.ready {
		r.core.Duplex(true)
	}
}

// tellCallee tells the role that answers what the server takes in one Send.
func (r *Requester) tellCallee() {
	if v := &r.callee; v.resp != nil {
		v.resp.core.Takes(r.core.PeerReceive())
	}
}

// setCallee takes new settings for calls of the server.
func (r *Requester) setCallee(s *conn.Settings) {
	v := &r.callee
	if v.resp == nil {
		r.takeCalls(s)
		r.tellCallee()
		return
	}
	reverse := s.Reverse()
	v.resp.acts = v.resp.core.SetSettings(&reverse, v.resp.acts)
	v.resp.carryOut()
}

// drain has the connection end once the calls of the server are answered; false
// if nobody answers any.
func (v *callee) drain() bool {
	if !v.ready {
		return false
	}
	v.resp.acts = v.resp.core.Drain(v.resp.acts)
	v.resp.carryOut()
	return true
}

func (v *callee) state() (b Backchannel) {
	if v.ready {
		b.Open, b.Credits = true, v.resp.core.Granted()
	}
	return b
}

// count adds the calls of the server to s.
func (v *callee) count(s *Stats) {
	if v.resp == nil {
		return
	}
	c := &v.resp.core.Counters
	s.ReverseCalls, s.ReverseReplies = c.Calls, c.Replies
	s.Errors += c.Errors
	s.Dropped += c.Dropped
	s.Ignored += c.Ignored
	s.Duplicates += c.Duplicates
}
