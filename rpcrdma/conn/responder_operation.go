package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// operate processes an optional operation of a requester. Like a call, it takes a credit
// and may be the first message.
func (r *Responder) operate(c *Call, payload []byte, acts []Action) []Action {
	if acts, known := r.transmission(c, payload, acts); known {
		return acts
	}
	h := &c.header
	if r.characterizes(h) {
		return r.characterize(c, payload, acts)
	}
	return r.refuse(c, rpcrdma2.ErrInvalOption, ErrOption, acts)
}

// answerOperation answers a message with an operation.
func (r *Responder) answerOperation(c *Call, answer rpcrdma2.Body, acts []Action) []Action {
	h := &c.header
	c.info = answer.Append(c.info[:0])
	h.Proc, h.Direction, h.Option, h.Info = rpcrdma2.Optional, rpcrdma2.Reply, answer.Type(), c.info
	c.Answer = Answer{Header: h, Failed: true}
	return r.answer(c, acts)
}
