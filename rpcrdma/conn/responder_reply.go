package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Reply is the event that the service has finished a call. The reply is a stream of
// streamLen bytes, and the items. Reply sets the Chunked and Into fields of items and does
// not keep the slice.
func (r *Responder) Reply(c *Call, streamLen int, items []chunk.Item, acts []Action) []Action {
	h := &c.header
	h.Proc, h.Reads, h.Direction = rpcrdma1.Msg, h.Reads[:0], rpcrdma2.Reply
	c.tie(items)
	c.resume(items)
	if c.transmitted {
		if inline, ok := r.shapeGroup(c, streamLen, items); ok {
			return r.conclude(c, inline, acts)
		}
	}
	long, ok := r.shape(h, streamLen, items)
	if !ok {
		return r.replyByRead(c, streamLen, items, acts)
	}
	c.pieces = chunk.AppendPieces(c.pieces[:0], streamLen, items)
	r.fillWrites(c, items)
	inline := c.pieces
	if long {
		h.Proc, inline = rpcrdma1.NoMsg, nil
		c.writes = chunk.Fill(c.writes, h.Reply, c.pieces, r.cfg.MaxTransfer)
	} else {
		chunk.Unused(h.Reply)
	}
	return r.conclude(c, inline, acts)
}

// fillWrites plans the RDMA Writes of the items that go into write chunks.
func (r *Responder) fillWrites(c *Call, items []chunk.Item) {
	c.writes = c.writes[:0]
	var filled [rpcrdma1.MaxWriteChunks]bool
	for i := range items {
		if it := &items[i]; it.Chunked {
			filled[it.Into] = true
			w := c.header.Writes[it.Into]
			rest := chunk.Piece{From: chunk.Source(i), Off: it.Written, Len: it.Len - it.Written}
			c.writes = chunk.Part(c.writes, w, it.Written, rest, r.cfg.MaxTransfer)
			chunk.Used(w, it.Len)
		}
	}
	for k, w := range c.header.Writes {
		if !filled[k] {
			chunk.Unused(w)
		}
	}
}

// conclude answers with a reply whose header and writes are ready.
func (r *Responder) conclude(c *Call, inline []chunk.Piece, acts []Action) []Action {
	h := &c.header
	c.Answer = Answer{
		Header: h, Writes: c.writes, Inline: r.pad(c, h, inline),
		Invalidate: c.onlyRKey && r.Invalidates(), RKey: c.rkey,
	}
	if h.Proc == rpcrdma2.Optional {
		c.Answer.More = c.group.More
	}
	if c.Answer.Invalidate {
		r.Counters.SendsWithInvalidate++
	}
	r.Counters.Replies++
	return r.answer(c, acts)
}

// shape decides how a reply is sent: which items go into write chunks, and whether the rest
// goes into the reply chunk (long). ok is false if the reply does not fit into what the
// caller offered.
//
// With one chunk offered, small items stay inline while everything fits. With several,
// every item with a chunk goes into it: results take chunks in order (RFC 5666 §3.6), and a
// peer may count the chunks that come back filled. If not everything fits, every item with
// a chunk moves as well, and if the rest still does not fit, it needs the reply chunk.
// Without a reply chunk, a reply may be as long as the peer learned at connect, even if the
// limit was lowered since.
func (r *Responder) shape(h *Header, streamLen int, items []chunk.Item) (long, ok bool) {
	header, limit := h.Size(), int(r.SendLimit())
	if useChunks(h.Writes, items, r.least(h)); header+chunk.PiecesLength(streamLen, items) <= limit {
		return false, true
	}
	useChunks(h.Writes, items, 1)
	n := chunk.PiecesLength(streamLen, items)
	if header+n <= limit {
		return false, true
	}
	if h.HasReply && uint64(n) <= chunk.Capacity(h.Reply) && header <= limit {
		return true, true
	}
	return false, header+n <= int(r.PeerReceive())
}

// least returns the length from which results go into their write chunk even if they fit
// inline, in bytes.
func (r *Responder) least(h *Header) int {
	if len(h.Writes) > 1 {
		return 1
	}
	return int(r.settings.DDPMinChunk)
}

// useChunks marks the items of at least least bytes that fit their write chunk.
func useChunks(writes []rpcrdma1.WriteChunk, items []chunk.Item, least int) {
	for i := range items {
		it := &items[i]
		it.Chunked = it.Written > 0 || it.Into >= 0 && it.Into < len(writes) && chunked(writes[it.Into], it.Len, least)
	}
}

// chunked reports whether an item of n bytes goes into its write chunk w.
func chunked(w rpcrdma1.WriteChunk, n, least int) bool {
	return n >= max(least, 1) && uint64(n) <= chunk.Capacity(w)
}

// refuse answers a call with an error (RFC 8166 §4.5). ErrChunk and version 2's BAD_HEADER
// have the same number.
func (r *Responder) refuse(c *Call, code rpcrdma1.ErrCode, why error, acts []Action) []Action {
	return r.answerError(c, code, append(acts, Report{Err: why}))
}

// answerProbe answers a first message of another version with the versions that we speak. A
// requester learns them in this way (RFC 8166 §4.2.2), so this is no error.
func (r *Responder) answerProbe(c *Call, why error, acts []Action) []Action {
	return r.sendError(c, rpcrdma1.ErrVers, append(acts, Report{Err: why, Expected: true}))
}

func (r *Responder) answerError(c *Call, code rpcrdma1.ErrCode, acts []Action) []Action {
	r.Counters.Errors++
	return r.sendError(c, code, acts)
}

func (r *Responder) sendError(c *Call, code rpcrdma1.ErrCode, acts []Action) []Action {
	h := &c.header
	h.Proc, h.Err = rpcrdma1.Error, code
	h.Low, h.High = r.begins().low(), r.begins().high()
	c.Answer = Answer{Header: h, Failed: true}
	return r.answer(c, acts)
}

// answer gives the call's receives back, sets the grant, and sends.
func (r *Responder) answer(c *Call, acts []Action) []Action {
	r.forget(c)
	r.adaptive.Observe(r.grants.Held())
	if r.settings.CreditsPolicy == settings.CreditsAdaptive {
		r.grants.SetTarget(r.policy())
	}
	grant, again := r.grants.AnswerGroup(c.sends())
	c.header.XID, c.header.Credits = c.XID, grant
	if len(c.Answer.More) > 0 {
		c.group.Number(&c.header.Header)
	}
	acts = append(acts, giveBack(c.recv, again > 0))
	for i, recv := range c.moreRecvs() {
		acts = append(acts, giveBack(recv, i+1 < again))
	}
	acts = r.wantReceives(acts)
	acts = r.settle(c.header.Proc != rpcrdma1.Error, append(acts, Send{Call: c}))
	if next := c.copies; next != nil {
		c.copies = nil
		return r.answerError(next, rpcrdma1.ErrChunk, acts)
	}
	return r.drained(acts)
}

// tie sets Into of each result of a reply: the index of its write chunk, or of its
// direction in the call.
func (c *Call) tie(items []chunk.Item) {
	if c.transmitted {
		placement.Tie(items, c.group.req.Results, c.arguments())
		return
	}
	for i := range items { // in order (RFC 8166 §4.3.2)
		items[i].Into = i
	}
}

// arguments returns where the arguments are in the XDR stream of the call message. A call
// without arguments counts as one operation.
func (c *Call) arguments() xdr.Span {
	n := len(c.RPC.Args.Stream)
	for i := range c.RPC.Args.Items {
		n += xdr.Padded(c.RPC.Args.Items[i].Len())
	}
	if n == 0 {
		return xdr.Span{End: c.args}
	}
	return xdr.Span{Begin: c.args, End: c.args + n}
}
