package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// complained decodes a peer's XMTERR about one of our replies. The call is over, so the
// result is only logged.
func (r *Responder) complained(h *Header) error {
	var e rpcrdma2.XmtError
	if err := e.Decode(h.Info); err != nil {
		return err
	}
	return &transmission.Error{XmtError: e, Told: true}
}

// refuseGroup answers a call with an invalid group, or an XMTCONT that continues nothing. e is a
// value so that other calls need no memory for it.
func (r *Responder) refuseGroup(c *Call, e rpcrdma2.XmtError, acts []Action) []Action {
	r.Counters.Errors++
	r.Counters.GroupsRefused++
	return r.answerOperation(c, &e, append(acts, Report{Err: &transmission.Error{XmtError: e}}))
}
