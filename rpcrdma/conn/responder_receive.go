package conn

import (
	"errors"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Arrived is the event that a message arrived for this role.
func (r *Responder) Arrived(a *Arrival, acts []Action) []Action {
	if r.dead {
		return acts
	}
	if a.Did { // a call cannot invalidate our memory
		return r.fail(ErrInvalidated, acts)
	}
	r.grants.Arrive()
	if r.xmit.gather.Open {
		if a.continues(rpcrdma2.Call) {
			return r.continued(&a.header, a.Recv, a.body, acts)
		}
		if acts = r.Interrupted(a, acts); r.dead { // it was the last call to be drained
			return acts
		}
	}
	if e := r.acknowledges(&a.header, a.err); e != nil {
		return r.done(e, a.Recv, acts)
	}
	if why := r.ignorable(a); why != nil {
		r.grants.Repost()
		return append(acts, giveBack(a.Recv, true), Report{Err: why})
	}
	c := r.newCall()
	if c == nil {
		return r.fail(ErrBacklog, acts)
	}
	c.header, a.header = a.header, c.header
	if a.err == nil && r.hears(&c.header) {
		return r.hear(c, a.Recv, a.body, acts)
	}
	if err := r.grants.Call(); err != nil {
		return r.fail(err, acts)
	}
	c.XID, c.recv = c.header.XID, a.Recv
	first := !r.started
	if first {
		r.started = true
		r.grants.SetTarget(r.policy())
	}
	acts = r.wantReceives(acts)
	switch {
	case r.draining:
		return r.drop(c, acts)
	case errors.Is(a.err, rpcrdma1.ErrVersion) && first:
		return r.answerProbe(c, a.err, acts)
	case errors.Is(a.err, rpcrdma1.ErrVersion):
		return r.refuse(c, rpcrdma1.ErrVers, a.err, acts)
	case a.err != nil:
		return r.refuse(c, rpcrdma1.ErrChunk, a.err, acts)
	case operates(&c.header, nil):
		return r.operate(c, a.body, acts)
	case r.live(c.XID):
		return r.keepCopy(c, acts)
	}
	r.Counters.Calls++
	r.xids, c.tracked = append(r.xids, c.XID), true
	return r.begin(c, a.body, acts)
}

// Interrupted is the event that another message came between the transmissions of a call,
// and ends the call. The sender may send nothing between them (rtrext §4.2).
func (r *Responder) Interrupted(a *Arrival, acts []Action) []Action {
	if r.dead {
		return acts
	}
	a.interrupt(&r.xmit.gather)
	return r.requested(acts)
}

// ignorable returns why a message is not a call and gets no answer, or nil if it is a call.
func (r *Responder) ignorable(a *Arrival) error {
	h := &a.header
	switch {
	case errors.Is(a.err, rpcrdma1.ErrShort):
		r.Counters.Dropped++
		return a.err
	case operates(h, a.err) && h.Option == rpcrdma2.OptXmtError && r.xmit.takes:
		r.Counters.Complaints++
		return r.complained(h)
	case a.known && a.direction == rpcrdma2.Reply: // an error is never answered
	case a.done(): // it acknowledges nothing (RFC 8166 §4.4: ignored)
	default:
		return nil
	}
	r.Counters.Ignored++
	return ErrUncalled
}

// keepCopy keeps a call that has the XID of one in progress until that one is answered. An
// earlier answer could be taken for the answer to the other call. Without an answer, the
// sender would never get its credit back (RFC 8166 §3.3.1).
func (r *Responder) keepCopy(c *Call, acts []Action) []Action {
	r.Counters.Duplicates++
	for _, first := range r.calls {
		if first.tracked && first.XID == c.XID {
			c.copies, first.copies = first.copies, c
			break
		}
	}
	return append(acts, Report{Err: ErrDuplicate})
}

// drop drops a call, with all its transmissions, without an answer.
func (r *Responder) drop(c *Call, acts []Action) []Action {
	r.grants.DropGroup(c.sends())
	acts = append(acts, giveBack(c.recv, true))
	for _, recv := range c.moreRecvs() {
		acts = append(acts, giveBack(recv, true))
	}
	c.forgetGroup()
	r.free = append(r.free, c)
	return acts
}

// begin checks the chunks of a call with a valid header. It then fetches the read chunks,
// if there are any, and delivers the call.
func (r *Responder) begin(c *Call, body []byte, acts []Action) []Action {
	if err := r.checkShape(c, body); err != nil {
		return r.refuse(c, rpcrdma1.ErrChunk, err, acts)
	}
	r.version, r.begun = c.header.Version, true
	c.rkey, c.onlyRKey = onlyHandle(&c.header)
	c.stream, c.early = body, false
	if len(c.Reads.Chunks) == 0 {
		return r.deliver(c, body, nil, acts)
	}
	c.Fetches = c.Reads.AppendReads(c.Fetches[:0], r.cfg.MaxTransfer)
	return append(acts, Fetch{Call: c})
}

// checkShape checks what can be checked before anything is fetched: the message type
// against the lists, and the segments against the limits.
func (r *Responder) checkShape(c *Call, body []byte) error {
	h := &c.header
	c.RPC.Args.Padding = oncrpc.Padding{}
	if r.cfg.Reverse && c.hasChunks() {
		return ErrReverseChunks
	}
	if h.Proc == rpcrdma1.MsgP {
		var err error
		if c.RPC.Args.Padding, err = r.padding.check(h); err != nil {
			return err
		}
	}
	if len(h.Reads) > 0 && r.unreadable() {
		return ErrNoReads
	}
	if err := c.Reads.Parse(h.Reads, readLimits); err != nil {
		return err
	}
	for _, w := range h.Writes {
		if err := chunk.CheckWrite(w); err != nil {
			return err
		}
	}
	if err := chunk.CheckWrite(h.Reply); err != nil {
		return err
	}
	switch {
	case c.Reads.Long() != (h.Proc == rpcrdma1.NoMsg):
		return ErrMessageChunk
	case h.Proc == rpcrdma1.NoMsg:
		return nil
	case !sameXID(h.XID, body):
		return ErrXID
	}
	return c.Reads.Place(len(body))
}

// hasChunks reports whether a call has chunks, also empty ones. In transmissions, a direction
// without memory is none: its result comes in the reply.
func (c *Call) hasChunks() bool {
	h := &c.header
	writes := len(h.Writes) > 0
	if c.transmitted {
		writes = slices.ContainsFunc(h.Writes, func(w rpcrdma1.WriteChunk) bool { return len(w) > 0 })
	}
	return writes || len(h.Reads) > 0 || h.HasReply
}

func sameXID(xid uint32, msg []byte) bool {
	x, _, ok := oncrpc.MessageType(msg)
	return ok && x == xid
}

// Fetching is the event that all RDMA Reads of a Fetch action are posted. memory is that of
// Fetched, which still follows. It delivers the call now, if it can: a long call is not known
// yet, and one that is to be refused keeps its memory until Fetched. Reply may come only
// after Fetched.
func (r *Responder) Fetching(c *Call, memory [][]byte, acts []Action) []Action {
	if c.transmitted || c.Reads.Long() || c.RPC.Args.Padding.Align != 0 {
		return acts
	}
	n, err := oncrpc.DecodePaddedCall(c.stream, &c.RPC.Args.Padding, &c.RPC)
	if err != nil || slices.ContainsFunc(c.Reads.Items(), func(at chunk.ReadChunk) bool { return at.At < n }) {
		return acts
	}
	c.early = true
	return r.deliver(c, c.stream, memory, acts)
}

// Fetched is the event that all RDMA Reads of a call have completed. memory[i] holds the
// bytes of c.Reads.Chunks[i] and stays valid until Sent.
func (r *Responder) Fetched(c *Call, memory [][]byte, acts []Action) []Action {
	if c.early {
		return acts
	}
	msg, items := c.stream, memory
	if c.Reads.Long() {
		msg, items = memory[0], memory[1:]
		if !sameXID(c.XID, msg) {
			return r.refuse(c, rpcrdma1.ErrChunk, ErrXID, acts)
		}
		if err := c.Reads.Place(len(msg)); err != nil {
			return r.refuse(c, rpcrdma1.ErrChunk, err, acts)
		}
	}
	return r.deliver(c, msg, items, acts)
}

// NoMemory is the event that there was no memory for a Fetch action. Nothing was read. The
// call is answered with an error.
func (r *Responder) NoMemory(c *Call, acts []Action) []Action {
	return r.refuse(c, rpcrdma1.ErrChunk, ErrNoMemory, acts)
}

// deliver decodes the RPC header and delivers the call. It refuses items that lie inside
// the header.
func (r *Responder) deliver(c *Call, msg []byte, items [][]byte, acts []Action) []Action {
	pad := &c.RPC.Args.Padding
	n, err := oncrpc.DecodePaddedCall(msg, pad, &c.RPC)
	pad.Base += uint32(n)
	if err != nil && !errors.As(err, &c.Denied) {
		return r.refuse(c, rpcrdma1.ErrChunk, err, acts)
	}
	c.RPC.Args.Items = c.RPC.Args.Items[:0]
	for i, at := range c.Reads.Items() {
		if at.At < n {
			return r.refuse(c, rpcrdma1.ErrChunk, ErrChunkInHeader, acts)
		}
		c.RPC.Args.Items = append(c.RPC.Args.Items, oncrpc.Item{Pos: at.At - n, Data: items[i]})
	}
	if c.transmitted {
		var ok bool
		if c.RPC.Args.Items, ok = c.group.items.Insert(c.RPC.Args.Items, n); !ok {
			return r.refuse(c, rpcrdma1.ErrChunk, ErrChunkInHeader, acts)
		}
	}
	c.RPC.Args.Stream, c.args = msg[n:], n
	return append(acts, Deliver{Call: c})
}
