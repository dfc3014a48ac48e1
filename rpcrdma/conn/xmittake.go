package conn

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// respond takes the first transmission of a reply.
func (r *Requester) respond(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	h := &r.header
	o, known := r.sent[h.XID]
	if !known || (o != nil && (o.state != outSent || !o.transmitted)) {
		r.Counters.Stray++
		return r.ignore(recv, inv, acts)
	}
	if inv.Did && o != nil && !o.revoke(inv.RKey) {
		return append(acts, Action{Kind: Fail, Err: ErrInvalidated})
	}
	g := &r.gather
	if err := r.response.Decode(h.Info); err != nil || r.response.Count == 0 || r.response.Count > r.mayAnswer(h.XID, o) {
		g.start(h, rpcrdma2.OptXmtResp, 1, 0, recv, nil)
		return r.gathered(ErrBadReply, acts)
	}
	g.start(h, rpcrdma2.OptXmtResp, r.response.Count, r.response.PayloadLength, recv, payload)
	return r.gathered(nil, acts)
}

// more takes a further transmission of the reply that is arriving.
func (r *Requester) more(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	r.spend.Arrive()
	if o := r.sent[r.gather.xid]; inv.Did && o != nil && !o.revoke(inv.RKey) {
		return append(acts, Action{Kind: Fail, Err: ErrInvalidated})
	}
	r.gather.add(&r.header, recv, payload)
	return r.gathered(nil, acts)
}

// interrupt ends the reply that was arriving: another message came first.
func (r *Requester) interrupt(h *Header, err error, acts []Action) []Action {
	r.gather.interrupt(h, err)
	return r.gathered(nil, acts)
}

// gathered takes the reply if all of it is here. Its call fails with bad, or if
// the group was refused: it was made, and is not made again.
func (r *Requester) gathered(bad error, acts []Action) []Action {
	g := &r.gather
	if !g.whole() {
		return acts
	}
	r.negotiation.open = false
	o := r.sent[g.xid]
	delete(r.sent, g.xid)
	if o == nil {
		r.Counters.Stray++
		r.settle(g.xid, g.credits)
	} else {
		r.answered(o, g.credits)
	}
	switch {
	case g.bad:
		acts = r.complain(g.wrong, acts)
		bad = ErrBadReply
	case o != nil && bad == nil && !r.takeResponse(o):
		bad = ErrBadReply
	case o != nil && bad == nil:
		for i, p := range g.parts {
			kind := Take
			if i > 0 {
				kind = TakeMore
			}
			acts = append(acts, Action{Kind: kind, Out: o, Body: p})
		}
	}
	for _, recv := range g.recvs {
		acts = r.giveBack(recv, acts)
	}
	g.end()
	if o == nil {
		return r.wake(acts)
	}
	if o.Err = bad; bad != nil {
		r.Counters.Errors++
	} else {
		r.Counters.Replies++
	}
	return r.wake(r.finish(o, acts))
}

// takeResponse checks a reply against its call.
func (r *Requester) takeResponse(o *Outgoing) bool {
	if !replies(r.gather.parts, o.XID) {
		return false
	}
	directed := o.xmit.directions()
	if len(r.response.Items) != len(directed) {
		return false
	}
	for i := range directed {
		if !o.takeItem(i, &directed[i], &r.response.Items[i]) {
			return false
		}
	}
	return true
}

// takeItem checks what became of a direction, and notes the length of a result
// that was written.
func (o *Outgoing) takeItem(i int, directed *rpcrdma2.ResultItem, it *rpcrdma2.Item) bool {
	switch it.Place {
	case rpcrdma2.NoItem:
		return true
	case rpcrdma2.TooShort:
		return it.Length < directed.MinLength
	case rpcrdma2.ExplicitRDMA:
		n, err := chunk.Returned(o.Header.Writes[i], it.Segments)
		length := int(min(it.Length, MaxMessage))
		if err != nil || it.Length < directed.MinLength || length > o.Results[i] || (n != length && n != length+chunk.Pad(length)) {
			return false
		}
		o.Written[i] = length
		return true
	}
	return false
}

// replies says whether an RPC message in parts is a reply with an XID.
func replies(parts [][]byte, xid uint32) bool {
	var b [8]byte
	n := 0
	for _, p := range parts {
		n += copy(b[n:], p)
	}
	return n == len(b) && binary.BigEndian.Uint32(b[:]) == xid && binary.BigEndian.Uint32(b[4:]) == uint32(oncrpc.MsgReply)
}
