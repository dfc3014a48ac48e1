package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// ErrOption means that a message is of an optional operation that nobody
// handles, or whose extension is off.
var ErrOption = errors.New("conn: unknown or disabled operation")

// Operation is an optional operation of version 2 (rdma_opttype) with who
// handles it. Extensions bring theirs; the core knows none.
type Operation struct {
	Type rpcrdma2.OptType
	// Extension has to be on for it.
	Extension Extensions
	// Body is the role's storage, into which each is decoded.
	Body rpcrdma2.Body
	// Handle takes one. At a responder it gives the answer, or nil for none,
	// which is encoded before the next is handled; a requester gives no
	// answers. An error says that the operation makes no sense: the sender gets
	// BAD_HEADER.
	Handle func(m *Message) (answer rpcrdma2.Body, err error)

	message Message // storage
}

// Message is an optional operation that came. It is valid during Handle.
type Message struct {
	XID  uint32
	Body rpcrdma2.Body
	// Payload follows the header: all or a part of an RPC message, or nothing.
	Payload []byte
}

// operations are those that a role handles. They are few: looked up one by one.
type operations []Operation

func (ops operations) find(t rpcrdma2.OptType, on Extensions) *Operation {
	for i := range ops {
		if op := &ops[i]; op.Type == t && on.Has(op.Extension) {
			return op
		}
	}
	return nil
}

// handle decodes the operation that h is the header of and has it handled.
func (op *Operation) handle(h *Header, payload []byte) (answer rpcrdma2.Body, err error) {
	if err := op.Body.Decode(h.Info); err != nil {
		return nil, err
	}
	op.message = Message{XID: h.XID, Body: op.Body, Payload: payload}
	return op.Handle(&op.message)
}

// operate takes an optional operation of a requester. It takes a credit as a
// call does, and may be the first message.
func (r *Responder) operate(c *Call, payload []byte, acts []Action) []Action {
	if acts, known := r.transmission(c, payload, acts); known {
		return acts
	}
	h := &c.header
	if r.characterizes(h) {
		return r.characterize(c, payload, acts)
	}
	op := operations(r.cfg.Operations).find(h.Option, r.settings.Extensions)
	if op == nil {
		return r.refuse(c, rpcrdma2.ErrInvalOption, ErrOption, acts)
	}
	answer, err := op.handle(h, payload)
	if err != nil {
		return r.refuse(c, rpcrdma2.ErrBadHeader, err, acts)
	}
	r.version = h.Version
	if answer == nil {
		return r.drop(c, acts)
	}
	return r.answerOperation(c, answer, acts)
}

// answerOperation answers an operation with another.
func (r *Responder) answerOperation(c *Call, answer rpcrdma2.Body, acts []Action) []Action {
	h := &c.header
	c.info = answer.Append(c.info[:0])
	h.Direction, h.Option, h.Info = rpcrdma2.Reply, answer.Type(), c.info
	c.Answer = Answer{Header: h, Failed: true}
	return r.answer(c, acts)
}

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

// operates says whether a message is an optional operation.
func operates(h *Header, err error) bool {
	return err == nil && h.Proc == rpcrdma2.Optional
}
