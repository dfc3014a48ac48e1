package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// maxUnsent is the most operations of ours that are being sent at once; more
// are wanted by a peer only that takes none.
const maxUnsent = 16

// message is an operation of ours as it goes out, as an action.
func (c *characteristics) message(xid, credits uint32, d rpcrdma2.Direction, body rpcrdma2.Body, acts []Action) []Action {
	h := rpcrdma2.Header{
		Header:    rpcrdma1.Header{XID: xid, Version: rpcrdma2.Version, Credits: credits, Proc: rpcrdma2.Optional},
		Direction: d, Option: body.Type(), Info: body.Append(nil),
	}
	return c.send(&h, acts)
}

// complain is an error of ours for an operation that has no answer.
func (c *characteristics) complain(xid, credits uint32, acts []Action) []Action {
	return c.send(&rpcrdma2.Header{Header: rpcrdma1.Header{
		XID: xid, Version: rpcrdma2.Version, Credits: credits, Proc: rpcrdma1.Error, Err: rpcrdma2.ErrBadHeader,
	}}, acts)
}

func (c *characteristics) send(h *rpcrdma2.Header, acts []Action) []Action {
	if c.unsent >= maxUnsent {
		return append(acts, Fail{Err: ErrBacklog})
	}
	c.unsent++
	return append(acts, Tell{Body: h.Append(nil)})
}

// decodeAlone decodes the body of an operation of characteristics, behind which
// there is nothing.
func decodeAlone(body rpcrdma2.Body, h *Header, payload []byte) error {
	if err := body.Decode(h.Info); err != nil {
		return err
	}
	if len(payload) > 0 {
		return errBehind
	}
	return nil
}

// ofCharacteristics says whether an operation is one of INIT to UPDATE.
func ofCharacteristics(t rpcrdma2.OptType) bool {
	return t >= rpcrdma2.OptInit && t <= rpcrdma2.OptUpdate
}
