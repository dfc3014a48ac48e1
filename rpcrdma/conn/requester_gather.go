package conn

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// respond takes the first transmission of a reply.
func (r *Requester) respond(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	h := &r.header
	o, known := r.awaits(h.XID)
	if !known {
		r.Counters.Stray++
		return r.ignore(recv, inv, acts)
	}
	if !r.revoked(h.XID, o, inv) {
		return append(acts, Fail{Err: ErrInvalidated})
	}
	g := &r.gather
	if err := r.response.Decode(h.Info); err != nil || r.response.Count == 0 || r.response.Count > r.mayAnswer(h.XID, o) {
		g.start(h, rpcrdma2.OptXmtResp, 1, 0, recv, nil)
		return r.gathered(ErrBadReply, acts)
	}
	g.start(h, rpcrdma2.OptXmtResp, r.response.Count, r.response.PayloadLength, recv, payload)
	return r.gathered(nil, acts)
}

// awaits says whether a call with this XID went out in transmissions, or any
// that was given up: o is nil then.
func (r *Requester) awaits(xid uint32) (o *Outgoing, known bool) {
	o, known = r.sent[xid]
	if o == nil {
		return nil, known && !r.asks(xid)
	}
	return o, o.state == outSent && o.transmitted
}

// more takes a further transmission of the reply that is arriving.
func (r *Requester) more(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	r.spend.Arrive()
	if !r.revoked(r.gather.xid, r.sent[r.gather.xid], inv) {
		return append(acts, Fail{Err: ErrInvalidated})
	}
	r.gather.add(&r.header, recv, payload)
	return r.gathered(nil, acts)
}

// interrupt ends the reply that was arriving: another message came first.
func (r *Requester) interrupt(a *Arrival, acts []Action) []Action {
	r.gather.interrupt(a)
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
	case o != nil && bad == nil:
		if bad = r.takeResponse(o); bad != nil {
			if e, is := groupFault(bad, g); is {
				acts = r.complain(e, acts)
			}
			bad = ErrBadReply
			break
		}
		o.Parts = append(o.Parts[:0], g.parts...)
		acts = append(acts, Take{o})
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

// takeResponse checks a reply against its call and notes where its results are.
//
// One whose displacement can't be is told with XMTERR, as rtrext §5.4 wants of
// "cases in which the problem is one with a reply": a requester has nothing else
// to send. BADOFF is the code that gives an offset with its range. NOITEM has no
// place in the stream.
func (r *Requester) takeResponse(o *Outgoing) error {
	if !replies(r.gather.parts, o.XID) {
		return ErrBadReply
	}
	if len(r.response.Items) != len(o.Header.Writes) { // one for each direction
		return ErrBadReply
	}
	stream := placement.NewStream(r.gather.size, oncrpc.AcceptedReplySize)
	begun := false
	for i := range r.response.Items {
		it := &r.response.Items[i]
		if err := placement.CheckAnswer(direction(o.xmit.req.Results, i), it); err != nil {
			return err
		}
		if it.Place == rpcrdma2.NoItem {
			continue
		}
		if err := stream.Item(it); err != nil {
			return err
		}
		if it.Place != rpcrdma2.ExplicitRDMA && it.Place != rpcrdma2.TargetBuffer {
			continue
		}
		if uint64(it.Length) > uint64(o.Results[i]) {
			return ErrBadReply
		}
		o.Written[i] = int(it.Length)
		if it.Place == rpcrdma2.ExplicitRDMA {
			continue
		}
		if !begun {
			begun = true
			if err := r.finder.begin(&r.targets, &r.gather); err != nil {
				return err
			}
		}
		if err := r.takePlaced(o, i, it); err != nil {
			return err
		}
	}
	return nil
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
