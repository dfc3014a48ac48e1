package transport

import (
	"context"
	"sync/atomic"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// callee is what a requester has to answer calls of its server. link.mu guards
// it.
type callee struct {
	handler  oncrpc.Handler // nil: there is none
	settings conn.Settings
	resp     *Responder  // nil until calls are to be taken, or one came
	ready    bool        // and there are receives for them
	serves   atomic.Bool // calls are for the handler
}

// noPrograms answers calls that nobody serves.
var noPrograms oncrpc.Mux

// ServeRPC implements oncrpc.Handler. A call that came although none are taken is
// answered as by a client without programs: its server need not wait for a timeout.
func (v *callee) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	if v.serves.Load() {
		return v.handler.ServeRPC(ctx, call, reply)
	}
	return noPrograms.ServeRPC(ctx, call, reply)
}

// takeCalls has calls of the server served, if settings want it. It stays so
// while the connection lives: nothing tells the server that there are to be no
// more calls.
func (r *Requester) takeCalls(s *conn.Settings) {
	v := &r.callee
	v.settings = *s
	if v.handler == nil || !s.Backchannel() {
		return
	}
	v.serves.Store(true)
	if r.makeCallee(); v.ready {
		r.inbound.Calls(v.resp.core, true)
	}
}

// makeCallee makes the role that answers calls of the server, served or not.
func (r *Requester) makeCallee() {
	v := &r.callee
	if v.resp != nil {
		return
	}
	reverse := v.settings.Reverse()
	v.resp = &Responder{side: side{link: r.link}, handler: v, peer: r.id.RemoteAddr(), memory: r.memory, reverse: true}
	v.resp.own = v.resp
	v.resp.core = conn.NewResponder(conn.ResponderConfig{
		MaxReceives: r.maxReverse(),
		Receive:     uint32(r.rq.size),
		Reverse:     true,
		Settings:    &reverse,
	})
	v.resp.core.Beside(r.core)
	r.tellCallee()
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
		r.inbound.Calls(v.resp.core, v.serves.Load())
	}
}

// tellCallee tells the role that answers what the server takes in one Send.
func (r *Requester) tellCallee() {
	switch v := &r.callee; {
	case v.resp == nil:
	case r.core.Characteristics().Spoken:
		v.resp.core.TakesExactly(r.core.PeerReceive())
	default:
		v.resp.core.Takes(r.core.PeerReceive())
	}
}

// setCallee takes new settings for calls of the server.
func (r *Requester) setCallee(s *conn.Settings) {
	v := &r.callee
	r.takeCalls(s)
	if v.resp == nil {
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
	if v.ready && v.serves.Load() {
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
