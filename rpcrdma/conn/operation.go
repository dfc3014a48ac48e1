package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// ErrOption means that a message is an optional operation that has no handler, or
// whose extension is off.
var ErrOption = errors.New("conn: unknown or disabled operation")

// Operation is an optional operation of version 2 (rdma_opttype) with its handler.
// Each extension adds its own; the core knows none.
type Operation struct {
	Type rpcrdma2.OptType
	// Extension has to be on for it.
	Extension Extensions
	// Body is the role's storage, into which each is decoded.
	Body rpcrdma2.Body
	// Handle takes one operation. At a responder it returns the answer, or nil for
	// none; the answer is encoded before the next operation is handled. At a
	// requester it returns no answer. An error means that the operation makes no
	// sense: the sender gets BAD_HEADER.
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

// operates says whether a message is an optional operation.
func operates(h *Header, err error) bool {
	return err == nil && h.Proc == rpcrdma2.Optional
}
