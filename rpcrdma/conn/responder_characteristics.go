package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// NoBackward reports that the peer announced that it takes no calls in the reverse
// direction.
func (r *Responder) NoBackward() bool {
	return r.chars.Peer == characteristics.Supported && r.chars.Told.Backward == rpcrdma2.BackwardNone
}

// Resized is the event that the last Resize progressed: below counts the posted receives that
// are still smaller than it asked for, all counts all posted receives. Give it when the Resize
// was carried out, from time to time while smaller receives remain, and when none remain.
func (r *Responder) Resized(below, all int, acts []Action) []Action {
	r.chars.Posted(below, all)
	return r.tell(acts)
}

// tell sends the characteristics messages that are due.
func (r *Responder) tell(acts []Action) []Action {
	c := &r.chars
	if r.cfg.Reverse || r.dead {
		return acts
	}
	r.keep()
	if c.Resize() {
		acts = append(acts, Resize{N: int(c.Target)})
	}
	for range characteristics.MaxNext {
		body := c.Next(true, true)
		if body == nil {
			break
		}
		r.opXID++
		if body.Type() == rpcrdma2.OptRequest {
			c.Requests(r.opXID)
		}
		acts = sendOperation(c, r.opXID, r.grants.Told(), rpcrdma2.Reply, body, acts)
	}
	return acts
}

// keep keeps receives as large as the answers to calls to the client may be. Calls from before
// the client's first operation were planned for the sizes of the connect.
func (r *Responder) keep() {
	if r.beside != nil {
		r.chars.Keep(r.beside.longest())
	}
}

// Replied is the event that the requester beside has taken an answer.
func (r *Responder) Replied(acts []Action) []Action {
	if !r.chars.Keeps() {
		return acts
	}
	return r.tell(acts)
}

// characterizes reports whether an operation of a requester concerns characteristics.
func (r *Responder) characterizes(h *Header) bool {
	return characteristics.Of(h.Option) && !r.cfg.Reverse && r.chars.Takes()
}

// characterize processes INIT and REQUEST. They get an answer and take a credit.
func (r *Responder) characterize(c *Call, payload []byte, acts []Action) []Action {
	h, own := &c.header, &r.chars
	r.keep()
	var answer rpcrdma2.Body
	if h.Option == rpcrdma2.OptInit {
		var body rpcrdma2.Init
		err := characteristics.Decode(&body, h.Info, payload)
		switch {
		case err != nil:
		case r.begun || own.Peer != characteristics.Unknown:
			err = characteristics.ErrLateInit
		default:
			err = own.Begun(&body)
		}
		if err != nil {
			return r.refuse(c, rpcrdma2.ErrBadHeader, err, acts)
		}
		answer = own.Init()
	} else {
		respond, lowered, err := own.Requested(h.Info, payload)
		if err != nil {
			return r.refuse(c, rpcrdma2.ErrBadHeader, err, acts)
		}
		if lowered {
			acts = append(acts, Resize{N: int(own.Target)})
		}
		answer = respond
	}
	own.Peer, r.version, r.begun = characteristics.Supported, h.Version, true
	acts = r.answerOperation(c, answer, append(acts, Changed{}))
	return r.tell(acts)
}

// hears reports whether an operation is UPDATE or RESPOND. They get no answer and take no
// credit.
func (r *Responder) hears(h *Header) bool {
	return operates(h, nil) && (h.Option == rpcrdma2.OptUpdate || h.Option == rpcrdma2.OptRespond) && r.characterizes(h)
}

// hear processes UPDATE and RESPOND. An invalid UPDATE gets BAD_HEADER.
func (r *Responder) hear(c *Call, recv uint32, payload []byte, acts []Action) []Action {
	h, own := &c.header, &r.chars
	var err error
	if h.Option == rpcrdma2.OptUpdate {
		var body rpcrdma2.Update
		if err = characteristics.Decode(&body, h.Info, payload); err == nil {
			err = own.Learn(body.Now)
		}
		if err == nil {
			own.Peer, r.version, r.begun = characteristics.Supported, h.Version, true
		}
	} else {
		var body rpcrdma2.Respond
		if err = characteristics.Decode(&body, h.Info, payload); err != nil {
			body = rpcrdma2.Respond{}
		}
		if own.Asks(h.XID) {
			own.Responded(&body)
		} else {
			err = ErrUncalled
			r.Counters.Ignored++
		}
	}
	r.free = append(r.free, c)
	r.grants.Repost()
	acts = append(acts, giveBack(recv, true), Changed{})
	if err != nil {
		acts = append(acts, Report{Err: err})
	}
	if err != nil && h.Option == rpcrdma2.OptUpdate {
		r.Counters.Errors++
		acts = complain(own, h.XID, r.grants.Told(), acts)
	}
	return r.tell(acts)
}
