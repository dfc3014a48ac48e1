package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// complained takes a peer's XMTERR about a reply of ours. The call is over; it
// is for the log.
func (r *Responder) complained(h *Header) error {
	var e rpcrdma2.XmtError
	if err := e.Decode(h.Info); err != nil {
		return err
	}
	return &transmission.Error{XmtError: e, Told: true}
}

// refuseGroup answers a call whose group is not what it should be, or an
// XMTCONT that continues nothing.
func (r *Responder) refuseGroup(c *Call, e *rpcrdma2.XmtError, acts []Action) []Action {
	r.Counters.Errors++
	r.Counters.GroupsRefused++
	h := &c.header
	c.info = e.Append(c.info[:0])
	h.Proc, h.Direction, h.Option, h.Info = rpcrdma2.Optional, rpcrdma2.Reply, rpcrdma2.OptXmtError, c.info
	c.Answer = Answer{Header: h, Failed: true}
	return r.answer(c, append(acts, Report{Err: &transmission.Error{XmtError: *e}}))
}
