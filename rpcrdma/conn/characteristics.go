package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Characteristics are the known transport characteristics of both ends.
type Characteristics = characteristics.Info

// characteristicsOf returns the part of the settings that concerns characteristics.
func characteristicsOf(s *settings.Settings) characteristics.Config {
	c := characteristics.Config{
		On:           s.Extensions.Has(settings.ExtCharacteristics),
		Receives:     s.Receives(),
		Places:       s.Extensions.Has(settings.ExtSendDDP),
		Invalidation: s.RemoteInvalidationAccept,
		Backward:     s.Backchannel(),
	}
	if s.Extensions.Has(settings.ExtXmit) {
		c.RTR = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse
	}
	if s.Extensions.Has(settings.ExtContinuation) {
		c.RTR |= rpcrdma2.RTRContinue
		c.Transmissions = transmission.Limit
	}
	return c
}

// maxUnsent limits how many of our operations wait to be sent. Only a peer that does not
// take messages makes us reach it.
const maxUnsent = 16

// sendOperation appends the action that sends one of our operations.
func sendOperation(c *characteristics.State, xid, credits uint32, d rpcrdma2.Direction, body rpcrdma2.Body, acts []Action) []Action {
	h := rpcrdma2.Header{
		Header:    rpcrdma1.Header{XID: xid, Version: rpcrdma2.Version, Credits: credits, Proc: rpcrdma2.Optional},
		Direction: d, Option: body.Type(), Info: body.Append(nil),
	}
	if q, is := body.(*rpcrdma2.Request); is && len(q.Want) > 0 { // we keep to that size from now on
		acts = append(acts, Changed{})
	}
	return tell(c, &h, acts)
}

// complain appends the action that sends an error for an operation that gets no answer.
func complain(c *characteristics.State, xid, credits uint32, acts []Action) []Action {
	return tell(c, &rpcrdma2.Header{Header: rpcrdma1.Header{
		XID: xid, Version: rpcrdma2.Version, Credits: credits, Proc: rpcrdma1.Error, Err: rpcrdma2.ErrBadHeader,
	}}, acts)
}

func tell(c *characteristics.State, h *rpcrdma2.Header, acts []Action) []Action {
	if c.Unsent >= maxUnsent {
		return append(acts, Fail{ErrBacklog})
	}
	c.Unsent++
	return append(acts, Tell{h.Append(nil)})
}
