package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Greet is the event that the connection is up and calls may follow. With
// extensions.characteristics on, INIT is the first message.
func (r *Requester) Greet(acts []Action) []Action {
	r.up, r.untold = true, true
	return r.wake(acts)
}

// Resized is the event that the last Resize progressed: below counts the posted receives that
// are still smaller than it asked for, all counts all posted receives. Give it when the Resize
// was carried out, from time to time while smaller receives remain, and when none remain.
func (r *Requester) Resized(below, all int, acts []Action) []Action {
	r.chars.Posted(below, all)
	r.untold = true
	return r.wake(acts)
}

// tell sends the characteristics messages that are due.
func (r *Requester) tell(acts []Action) []Action {
	c := &r.chars
	if r.cfg.Reverse || !r.up || r.lost != nil {
		return acts
	}
	if c.Peer == characteristics.Unknown {
		return r.probe(acts)
	}
	if c.Resize() {
		acts = append(acts, Resize{N: int(c.Target)})
	}
	most := max(r.settings.Receives(), rpcrdma2.DefaultReceiveSize)
	for range characteristics.MaxNext {
		switch body := c.Next(r.settled(most), r.spend.Can()).(type) {
		case nil:
		case *rpcrdma2.Request:
			acts = r.ask(body, acts)
		default:
			acts = sendOperation(c, r.nextXID(), r.spend.Max(), rpcrdma2.Call, body, acts)
		}
	}
	r.untold = c.Due()
	return acts
}

// probe finds out whether the peer has the extension. It sends INIT as the first message,
// or an empty REQUEST if other messages came before.
func (r *Requester) probe(acts []Action) []Action {
	c := &r.chars
	_, asking := c.Asking()
	r.untold = r.settings.Extensions.Has(settings.ExtCharacteristics) && r.negotiation.way.number() == rpcrdma2.Version && !asking
	if !r.untold || !r.spend.Can() {
		return acts
	}
	switch {
	case r.probes():
		if r.settled(rpcrdma2.DefaultReceiveSize) {
			acts = r.ask(&rpcrdma2.Request{}, acts)
		}
	case r.negotiation.state == Offered && len(r.sent) == 0 && r.Counters.Calls == 0:
		r.negotiation.open = true
		acts = r.ask(c.Init(), acts)
	}
	return acts
}

// probes reports whether a REQUEST, not INIT, finds out whether the peer has the extension.
// From that REQUEST on, the peer knows the default size of our receives in place of what we
// announced at connect, and makes no longer Send.
func (r *Requester) probes() bool {
	_, asking := r.chars.Asking()
	return r.chars.Peer == characteristics.Unknown && (asking || r.settings.Extensions.Has(settings.ExtCharacteristics)) &&
		!r.cfg.Reverse && r.negotiation.state == Agreed && r.negotiation.way.number() == rpcrdma2.Version
}

// ask sends an operation that gets an answer. Like a call, it takes a credit.
func (r *Requester) ask(body rpcrdma2.Body, acts []Action) []Action {
	xid := r.nextXID()
	r.spend.Call()
	r.sent[xid] = nil
	r.chars.Requests(xid)
	return sendOperation(&r.chars, xid, r.spend.Max(), rpcrdma2.Call, body, acts)
}

// settled reports that no reply in flight can be longer than most bytes.
func (r *Requester) settled(most uint32) bool { return r.longest() <= most }

// longest returns the largest Send that may answer a call in flight, in bytes. A result up to the
// default size of receives means only that no Send is larger than that size.
func (r *Requester) longest() (n uint32) {
	for xid, o := range r.sent {
		if o == nil { // given up, or an operation
			n = max(n, r.debts[xid].inline)
		} else {
			n = max(n, o.inline)
		}
	}
	return n
}

// characterizes reports whether an operation of a responder concerns characteristics.
func (r *Requester) characterizes(h *Header) bool {
	return characteristics.Of(h.Option) && !r.cfg.Reverse && r.chars.Takes()
}

// characterize processes an operation that concerns characteristics. It drops an invalid
// one.
func (r *Requester) characterize(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	h, c := &r.header, &r.chars
	if acts = r.ignore(recv, inv, acts); inv.Did {
		return acts
	}
	sane := true
	switch h.Option {
	case rpcrdma2.OptInit, rpcrdma2.OptRespond:
		acts = r.introduced(h, acts)
		if !c.Asks(h.XID) {
			r.Counters.Stray++
			return acts
		}
		sane = r.responded(h, payload)
		acts = append(acts, Changed{})
	case rpcrdma2.OptUpdate:
		var body rpcrdma2.Update
		sane = c.Peer == characteristics.Supported && characteristics.Decode(&body, h.Info, payload) == nil && c.Learn(body.Now) == nil
		acts = append(acts, Changed{})
	case rpcrdma2.OptRequest:
		sane = false
		if c.Peer != characteristics.Supported {
			break
		}
		if answer, lowered, err := c.Requested(h.Info, payload); err == nil {
			sane = true
			if lowered {
				acts = append(acts, Resize{N: int(c.Target)})
			}
			acts = sendOperation(c, h.XID, r.spend.Max(), rpcrdma2.Call, answer, acts)
		}
	}
	if !sane {
		r.Counters.Errors++
	}
	r.untold = true
	return r.wake(r.wantReceives(acts))
}

// introduced takes an INIT that has an XID of its own as the answer to our INIT. It sends
// ours first if that was not sent yet. The text lets either side begin with an INIT, and
// does not say that one answers the other. Nothing else answers our INIT, so it keeps its
// credit, as a DONE does, until a later answer shows that it arrived.
func (r *Requester) introduced(h *Header, acts []Action) []Action {
	c := &r.chars
	if h.Option != rpcrdma2.OptInit || c.Asks(h.XID) || c.Peer != characteristics.Unknown || r.negotiation.state != Offered {
		return acts
	}
	r.up, r.untold = true, true
	acts = r.tell(acts)
	if xid, asking := c.Asking(); asking {
		h.XID = xid
		r.spend.Owe()
		r.donesSent++
	}
	return acts
}

// responded processes the answer to our INIT or REQUEST.
func (r *Requester) responded(h *Header, payload []byte) (sane bool) {
	c := &r.chars
	_, _ = r.negotiation.answer(h, true)
	delete(r.sent, h.XID)
	r.spend.Answer(h.Credits)
	if h.Option == rpcrdma2.OptInit {
		var body rpcrdma2.Init
		c.Answered()
		sane = c.Peer == characteristics.Unknown && characteristics.Decode(&body, h.Info, payload) == nil && c.Begun(&body) == nil
		if c.Peer == characteristics.Unknown {
			c.Peer = characteristics.Unsupported
			if sane {
				c.Peer = characteristics.Supported
			}
		}
		return sane
	}
	var body rpcrdma2.Respond
	if sane = characteristics.Decode(&body, h.Info, payload) == nil; !sane {
		body = rpcrdma2.Respond{}
	}
	c.Peer = characteristics.Supported
	c.Responded(&body)
	return sane
}

// refusedOperation processes an error that answers our INIT or REQUEST. The peer speaks
// version 1, or does not have the extension.
func (r *Requester) refusedOperation(recv uint32, inv Invalidation, acts []Action) []Action {
	h, c := &r.header, &r.chars
	delete(r.sent, h.XID)
	r.spend.Answer(h.Credits)
	c.Refused(h.Err)
	r.untold = true
	return r.wake(r.ignore(recv, inv, append(acts, Changed{})))
}
