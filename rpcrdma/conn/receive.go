package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Receive is the event that a message arrived in the receive recv. msg stays
// valid until recv is given back.
func (r *Responder) Receive(recv uint32, msg []byte, acts []Action) []Action {
	if r.dead {
		return acts
	}
	r.grants.Arrive()
	c := r.newCall()
	if c == nil {
		return r.fail(ErrBacklog, acts)
	}
	n, err := c.header.decode(msg, r.spoken())
	if r.xmit.gather.open {
		if continues(&c.header, err, rpcrdma2.Call) {
			r.free = append(r.free, c)
			return r.continued(&c.header, recv, msg[n:], acts)
		}
		if acts = r.interrupted(&c.header, err, acts); r.dead { // it was the last to be drained
			r.free = append(r.free, c)
			return acts
		}
	}
	if r.duplex && answers(&c.header, err, msg[n:]) {
		r.free = append(r.free, c)
		r.grants.Repost() // the receive counts in the other direction
		return append(acts, Action{Kind: Other, Recv: recv, Body: msg})
	}
	if e := r.acknowledges(&c.header, err); e != nil {
		r.free = append(r.free, c)
		return r.done(e, recv, acts)
	}
	if why := r.ignorable(c, err, msg[n:]); why != nil {
		r.free = append(r.free, c)
		r.grants.Repost()
		return append(acts, Action{Kind: Repost, Recv: recv}, Action{Kind: Report, Err: why})
	}
	if err == nil && r.hears(&c.header) {
		return r.hear(c, recv, msg[n:], acts)
	}
	if err := r.grants.Call(); err != nil {
		return r.fail(err, acts)
	}
	c.XID, c.recv = c.header.XID, recv
	if !r.started {
		r.started = true
		r.grants.SetTarget(r.policy())
	}
	acts = r.wantReceives(acts)
	switch {
	case r.draining:
		return r.drop(c, acts)
	case errors.Is(err, rpcrdma1.ErrVersion):
		return r.refuse(c, rpcrdma1.ErrVers, err, acts)
	case err != nil:
		return r.refuse(c, rpcrdma1.ErrChunk, err, acts)
	case operates(&c.header, nil):
		return r.operate(c, msg[n:], acts)
	case r.live(c.XID):
		r.Counters.Duplicates++ // its sender gets the one answer
		return r.drop(c, append(acts, Action{Kind: Report, Err: ErrDuplicate}))
	}
	r.Counters.Calls++
	r.xids, c.tracked = append(r.xids, c.XID), true
	return r.begin(c, msg[n:], acts)
}

// ignorable says why a message is no call and gets no answer; nil if it is one.
func (r *Responder) ignorable(c *Call, err error, body []byte) error {
	if errors.Is(err, rpcrdma1.ErrShort) {
		r.Counters.Dropped++
		return err
	}
	// The error type's number is the same in all versions, and an error is
	// never answered. A DONE that comes here
	// acknowledges nothing (RFC 8166 §4.4: ignored).
	if p := c.header.Proc; p == rpcrdma1.Error || (p == rpcrdma1.Done && err == nil) {
		r.Counters.Ignored++
		return ErrUncalled
	}
	if operates(&c.header, err) && c.header.Option == rpcrdma2.OptXmtError && r.xmit.takes {
		r.Counters.Complaints++
		return r.complained(&c.header)
	}
	if err == nil && (c.header.Proc != rpcrdma1.MsgP || r.padding.takes) {
		if d, known := versionOf(c.header.Version).direction(&c.header, body); known && d == rpcrdma2.Reply {
			r.Counters.Ignored++
			return ErrUncalled
		}
	}
	return nil
}

// drop drops a call without an answer, all of its transmissions.
func (r *Responder) drop(c *Call, acts []Action) []Action {
	r.grants.DropGroup(c.sends())
	acts = append(acts, Action{Kind: Repost, Recv: c.recv})
	for _, recv := range c.moreRecvs() {
		acts = append(acts, Action{Kind: Repost, Recv: recv})
	}
	c.forgetGroup()
	r.free = append(r.free, c)
	return acts
}

// begin takes a call with a sound header: its chunks are checked, fetched if
// there are any to read, and it is delivered.
func (r *Responder) begin(c *Call, body []byte, acts []Action) []Action {
	if err := r.checkShape(c, body); err != nil {
		return r.refuse(c, rpcrdma1.ErrChunk, err, acts)
	}
	r.version = c.header.Version
	c.rkey, c.onlyRKey = onlyHandle(&c.header)
	c.stream = body
	if len(c.Reads.Chunks) == 0 {
		return r.deliver(c, body, nil, acts)
	}
	c.Fetches = c.Reads.AppendReads(c.Fetches[:0], r.cfg.MaxTransfer)
	return append(acts, Action{Kind: Fetch, Call: c})
}

// checkShape checks what can be checked before anything is fetched: type
// against lists, segments against limits.
func (r *Responder) checkShape(c *Call, body []byte) error {
	h := &c.header
	c.RPC.Args.Padding = oncrpc.Padding{}
	if r.cfg.Reverse && (len(h.Reads) > 0 || len(h.Writes) > 0 || h.HasReply) {
		return ErrReverseChunks
	}
	if h.Proc == rpcrdma1.MsgP {
		var err error
		if c.RPC.Args.Padding, err = r.padding.check(h); err != nil {
			return err
		}
	}
	if len(h.Reads) > 0 && r.peer.unreadable() {
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

func sameXID(xid uint32, msg []byte) bool {
	x, _, ok := oncrpc.MessageType(msg)
	return ok && x == xid
}

// Fetched is the event that all RDMA Reads of a call have completed. memory[i]
// holds the bytes of c.Reads.Chunks[i] and stays valid until Sent.
func (r *Responder) Fetched(c *Call, memory [][]byte, acts []Action) []Action {
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

// NoMemory is the event that a call's Fetch failed for want of memory. The
// call is answered with an error; nothing of it was read.
func (r *Responder) NoMemory(c *Call, acts []Action) []Action {
	return r.refuse(c, rpcrdma1.ErrChunk, ErrNoMemory, acts)
}

// deliver decodes the RPC header and hands the call over. Items that would
// lie within the header can't be.
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
		if c.RPC.Args.Items, err = c.group.items.insert(c.RPC.Args.Items, n); err != nil {
			return r.refuse(c, rpcrdma1.ErrChunk, err, acts)
		}
	}
	c.RPC.Args.Stream = msg[n:]
	return append(acts, Action{Kind: Deliver, Call: c})
}
