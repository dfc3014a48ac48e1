package transport

import (
	"context"
	"sync/atomic"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// callee is a requester's state for answering calls of its server. link.mu guards it.
type callee struct {
	handler  oncrpc.Handler // nil means that there is none
	settings settings.Settings
	resp     *Responder  // nil until calls are to be accepted, or one came
	ready    bool        // there are receives for calls
	serves   atomic.Bool // calls go to the handler
}

// noPrograms answers calls for which there is no handler.
var noPrograms oncrpc.Mux

// ServeRPC implements oncrpc.Handler. If no calls are accepted, it answers as a client
// without programs, so that the server need not wait for a timeout.
func (v *callee) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	if v.serves.Load() {
		return v.handler.ServeRPC(ctx, call, reply)
	}
	return noPrograms.ServeRPC(ctx, call, reply)
}

// takeCalls starts to serve calls of the server, if the settings ask for it. This lasts
// until the connection ends, because no message says to the server that calls are over.
func (r *Requester) takeCalls(s *settings.Settings) {
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

// makeCallee makes the role that answers calls of the server, with or without a handler.
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

// prepareCallee posts the first receives for calls of the server. Without memory it is
// tried again at the next tick.
func (r *Requester) prepareCallee() {
	v := &r.callee
	if v.resp == nil || v.ready || r.dead {
		return
	}
	v.resp.do(v.resp.core.Start(v.resp.acts))
	if v.ready = !r.dead && v.resp.core.Settle(); v.ready {
		r.inbound.Calls(v.resp.core, v.serves.Load())
	}
}

// tellCallee gives the Send size that the server takes to the role that answers.
func (r *Requester) tellCallee() {
	switch v := &r.callee; {
	case v.resp == nil:
	case r.core.Characteristics().Spoken:
		v.resp.core.TakesExactly(r.core.PeerReceive())
	default:
		v.resp.core.Takes(r.core.PeerReceive())
	}
}

// setCallee applies new settings to calls of the server.
func (r *Requester) setCallee(s *settings.Settings) {
	v := &r.callee
	r.takeCalls(s)
	if v.resp == nil {
		return
	}
	reverse := s.Reverse()
	v.resp.do(v.resp.core.SetSettings(&reverse, v.resp.acts))
}

// drain ends the connection once the calls of the server are answered. It returns false if
// no calls are answered.
func (v *callee) drain() bool {
	if !v.ready {
		return false
	}
	v.resp.do(v.resp.core.Drain(v.resp.acts))
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
