package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// respond processes the first transmission of a reply.
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
	other := o != nil && o.version != h.Version // a reply has the rdma_vers of its call
	if err := r.response.Decode(h.Info); err != nil || other || r.response.Count == 0 || r.response.Count > r.mayAnswer(h.XID, o) {
		g.Start(&h.Header, rpcrdma2.OptXmtResp, 1, 0, recv, nil)
		return r.gathered(ErrBadReply, acts)
	}
	g.Start(&h.Header, rpcrdma2.OptXmtResp, r.response.Count, r.response.PayloadLength, recv, payload)
	return r.gathered(nil, acts)
}

// awaits reports whether a call with this XID was sent and can be answered in
// transmissions, or was given up. o is nil for a call that was given up.
func (r *Requester) awaits(xid uint32) (o *Outgoing, known bool) {
	o, known = r.sent[xid]
	if o == nil {
		return nil, known && !r.chars.Asks(xid)
	}
	return o, o.state == outSent && (o.transmitted || r.responses)
}

// more processes a further transmission of the reply that is arriving.
func (r *Requester) more(recv uint32, inv Invalidation, payload []byte, acts []Action) []Action {
	r.spend.Arrive()
	if !r.revoked(r.gather.XID, r.sent[r.gather.XID], inv) {
		return append(acts, Fail{Err: ErrInvalidated})
	}
	r.gather.Add(&r.header.Header, recv, payload)
	return r.gathered(nil, acts)
}

// gathered takes the reply once all transmissions have arrived. The call fails if bad is
// set or the group was refused. It was executed, so it is not made again.
func (r *Requester) gathered(bad error, acts []Action) []Action {
	g := &r.gather
	if !g.Whole() {
		return acts
	}
	r.negotiation.transmitted()
	o := r.sent[g.XID]
	delete(r.sent, g.XID)
	if o == nil {
		r.Counters.Stray++
		r.settle(g.XID, g.Credits)
	} else {
		r.answered(o, g.Credits)
	}
	switch {
	case g.Bad:
		acts = r.complain(g.Wrong, acts)
		bad = ErrBadReply
	case o != nil && bad == nil:
		if bad = r.takeResponse(o); bad != nil {
			if e, is := transmission.Fault(bad, g); is {
				acts = r.complain(e, acts)
			}
			bad = ErrBadReply
			break
		}
		o.Parts = append(o.Parts[:0], g.Parts...)
		acts = append(acts, Take{o})
	}
	for _, recv := range g.Recvs {
		acts = r.giveBack(recv, acts)
	}
	g.End()
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

// takeResponse checks a reply against its call and records where its results are.
//
// An impossible displacement is reported with XMTERR, as rtrext §5.4 requires for "cases in
// which the problem is one with a reply": a requester has no other message for it. The code
// is BADOFF, which reports an offset with its range. A NOITEM has no place in the stream.
func (r *Requester) takeResponse(o *Outgoing) error {
	if !replies(r.gather.Parts, o.XID) {
		return ErrBadReply
	}
	directions := 0
	if o.transmitted {
		directions = len(o.Header.Writes)
	}
	if len(r.response.Items) != directions {
		return ErrBadReply
	}
	stream := placement.NewStream(r.gather.Size, oncrpc.AcceptedReplySize)
	begun := false
	for i := range r.response.Items {
		it := &r.response.Items[i]
		if err := placement.CheckAnswer(placement.Direction(o.xmit.req.Results, i), it); err != nil {
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
			if err := r.finder.Begin(&r.chars.Targets, &r.gather); err != nil {
				return err
			}
		}
		if err := r.takePlaced(o, i, it); err != nil {
			return err
		}
	}
	return nil
}

// replies reports whether the RPC message in parts is a reply with this XID.
func replies(parts [][]byte, xid uint32) bool {
	var b [8]byte
	n := 0
	for _, p := range parts {
		n += copy(b[n:], p)
	}
	return isReply(b[:n], xid)
}

// isReply reports whether an RPC message is a reply with this XID.
func isReply(msg []byte, xid uint32) bool {
	x, mtype, ok := oncrpc.MessageType(msg)
	return ok && x == xid && mtype == oncrpc.MsgReply
}

// PlacedResult is a run of bytes of a result that came in Sends.
type PlacedResult struct {
	Result int
	Data   []byte
}

// takePlaced records where result i is.
func (r *Requester) takePlaced(o *Outgoing, i int, it *rpcrdma2.Item) error {
	parts, err := r.finder.Find(r.found[:0], &r.gather, it)
	for _, p := range parts {
		o.Placed = append(o.Placed, PlacedResult{i, p})
	}
	clear(parts)
	r.found = parts
	return err
}
