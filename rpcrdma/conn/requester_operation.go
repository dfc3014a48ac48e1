package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// operate takes an optional operation of a responder. One that nobody handles
// is dropped: an error goes from responder to requester only, and would be
// taken for the answer to a call.
func (r *Requester) operate(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	h := &r.header
	r.spend.Arrive()
	if h.Direction == rpcrdma2.Call { // of a responder's, and there is none
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
	if o := r.sent[h.XID]; o != nil && o.state == outSent && o.Answer != nil && o.Answer.Type() == h.Option {
		return r.operated(o, recv, inv, acts)
	}
	op := operations(r.cfg.Operations).find(h.Option, r.settings.Extensions)
	if op == nil {
		r.Counters.Stray++
		return r.ignore(recv, inv, acts)
	}
	if _, err := op.handle(h, payload); err != nil {
		r.Counters.Errors++
	}
	return r.wake(r.ignore(recv, inv, acts))
}

// operated ends an operation of ours with its answer.
func (r *Requester) operated(o *Outgoing, recv uint32, inv Invalidation, acts []Action) []Action {
	h := &r.header
	if _, err := r.negotiation.answer(h, true); err != nil {
		return append(acts, Fail{Err: err})
	}
	delete(r.sent, h.XID)
	r.answered(o, h.Credits)
	if err := o.Answer.Decode(h.Info); err != nil {
		o.Err = ErrBadReply
		r.Counters.Errors++
	}
	return r.wake(r.finish(o, r.ignore(recv, inv, acts)))
}

// planOperation is Plan for an operation without an RPC message.
func (r *Requester) planOperation(o *Outgoing) error {
	o.reset()
	o.version = r.negotiation.way.number()
	switch {
	case o.version != rpcrdma2.Version:
		return ErrDisabled
	case o.size() > int(min(r.SendLimit(), FirstMessageMax)):
		return ErrCallTooLong
	}
	return nil
}

// buildOperation is Build for such.
func (o *Outgoing) buildOperation() {
	h := &o.Header
	o.info = o.Operation.Append(o.info[:0])
	h.XID, h.Version, h.Credits, h.Proc, h.Direction = o.XID, o.version, o.credits, rpcrdma2.Optional, rpcrdma2.Call
	h.Option, h.Info, o.Inline, o.First = o.Operation.Type(), o.info, nil, 0
}
