package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// operate processes an optional operation of a responder. It drops an unknown one: errors
// go only from responder to requester, and the peer would take one for the answer to a
// call.
func (r *Requester) operate(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	h := &r.header
	r.spend.Arrive()
	if h.Direction == rpcrdma2.Call { // for a responder, and there is none
		r.Counters.Stray++
		return r.ignore(recv, inv, acts)
	}
	if r.characterizes(h) {
		return r.characterize(recv, inv, payload, acts)
	}
	switch h.Option {
	case rpcrdma2.OptXmtResp:
		return r.respond(recv, inv, payload, acts)
	case rpcrdma2.OptXmtCont:
		return r.astray(recv, inv, acts)
	case rpcrdma2.OptXmtError:
		return r.refused(recv, inv, acts)
	}
	r.Counters.Stray++
	return r.ignore(recv, inv, acts)
}
