package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// outgoingGroup is a call of ours that goes out in transmissions.
type outgoingGroup struct {
	transmission.Group
	req  rpcrdma2.XmtReq
	size int // bytes of the largest Send
	// limit is the planned size of each Send, first that of the first header, in bytes.
	limit, first int
	// spare is how many receives the reply may need beyond the first.
	spare uint32
	// placed means that items of the call are laid out for structure, the peer's buffers.
	placed  bool
	results bool // results go to target segments of ours
	// chooses means that the peer chooses where some results go.
	chooses   bool
	parts     []int // of target segments, in bytes, for each result
	ranged    bool  // each operation's results have a range of their own
	layout    transmission.Layout
	structure *rpcrdma2.BufferGroup
}

// Sends returns the number of Sends that a planned call needs.
func (o *Outgoing) Sends() int { return int(o.uses) }

// transmits reports whether calls may go out in transmissions now: the extension is on, and
// the peer announced support. It is never tried without that.
func (r *Requester) transmits() bool {
	return r.settings.Extensions.Has(settings.ExtXmit) && r.peerTransmits() &&
		r.negotiation.state == Agreed && r.negotiation.way.number() == rpcrdma2.Version
}

// peerTransmits reports whether the peer takes calls in transmissions and answers likewise.
// A limit of 0 transmissions means that it does not (rtrext §8.4, §8.5).
func (r *Requester) peerTransmits() bool {
	return r.chars.Told.RTR&rpcrdma2.RTRRequest != 0 && r.chars.Told.RequestReceive > 0 && r.chars.Told.ResponseSend > 0
}

// callLimit and replyLimit return how many transmissions a call and its reply may have now,
// at least 1. The peer must support transmissions.
func (r *Requester) callLimit() int {
	if r.chars.Told.RTR&rpcrdma2.RTRContinue == 0 || !r.settings.Extensions.Has(settings.ExtContinuation) {
		return 1
	}
	return int(min(max(r.chars.Told.RequestReceive, 1), transmission.Limit))
}

func (r *Requester) replyLimit() int {
	if !r.settings.Extensions.Has(settings.ExtContinuation) {
		return 1
	}
	spare := r.maxSpare()
	if !r.cfg.Reverse { // or it waits for them
		spare -= int(r.spend.Spare())
	}
	return max(min(1+spare, int(min(r.chars.Told.ResponseSend, transmission.Limit))), 1)
}

// takesGroup reports whether the peer still takes what was planned.
func (r *Requester) takesGroup(o *Outgoing) bool {
	if !o.transmitted {
		return true
	}
	if r.chars.Targets.Peer(&r.chars.Told.Buffer); o.xmit.placed && o.xmit.structure != r.chars.Targets.Version() {
		return false
	}
	return r.peerTransmits() && int(o.uses) <= r.callLimit() && o.xmit.spare < r.chars.Told.ResponseSend
}

// planGroup plans a call in transmissions. Whatever fits into the payload streams of the
// call and the reply goes there instead of into chunks. It returns false if this neither
// saves a chunk nor lets the peer do without one, if the message is too long for the peer's
// limit, or if there are too few credits now.
func (r *Requester) planGroup(o *Outgoing) bool {
	before := len(o.Windows)
	o.reset()
	o.version, o.inline = rpcrdma2.Version, r.ReplyLimit()
	if o.xmit == nil {
		o.xmit = new(outgoingGroup)
	}
	x := o.xmit
	x.limit = int(r.SendLimit())
	x.req.Items, x.req.Results = x.req.Items[:0], x.req.Results[:0]
	x.req.Reply, x.req.HasReply = x.req.Reply[:0], false
	x.ranged = o.ranged()
	if !r.placeResults(o) {
		r.planLongReply(o)
	}
	if !r.placeItems(o) {
		r.planItems(o)
	}
	switch windows := len(o.Windows); {
	case windows > before, windows == before && !x.chooses:
		return false
	case r.cfg.Reverse && windows > 0: // RFC 8167 §5.3: no chunks
		return false
	}
	x.first = rpcrdma2.OptionalSize(x.req.Size())
	n := x.measure(o.MessageLength())
	if n == 0 || n > r.callLimit() || x.first > settings.InlineMin || !r.affords(uint32(n)) {
		return false
	}
	if o.Inline = o.pieces; x.placed {
		o.place()
	}
	x.req.Count, x.req.ReceiveBuffers = uint32(n), x.spare
	o.transmitted, o.uses = true, uint32(n)
	return true
}

// affords reports whether there are credits for n transmissions now. In the reverse
// direction, where long messages have no other way, it reports whether there can be enough
// at all. There, the peer's grant is unknown before the first answer.
func (r *Requester) affords(n uint32) bool {
	switch {
	case !r.cfg.Reverse:
		return r.spend.CanGroup(n)
	case !r.spend.Known():
		return n <= r.spend.Max()
	}
	return n <= min(r.spend.Granted(), r.spend.Max())
}

// measure returns the number of transmissions and stores the size of the largest.
func (x *outgoingGroup) measure(payload int) (n int) {
	if x.placed {
		x.size = x.layout.Largest()
		return len(x.layout.Transmissions)
	}
	if n, x.size = transmission.Count(payload, x.first, x.limit), x.limit; n == 1 {
		x.size = x.first + payload
	}
	return n
}

// planItems lets the peer read the largest item if it is large, as in a call without
// transmissions.
func (r *Requester) planItems(o *Outgoing) {
	largest := o.candidate(false)
	if largest >= 0 && o.Items[largest].Len >= max(int(r.settings.DDPMinChunk), 1) && !r.unreadable() {
		o.Items[largest].Chunked = true
		n := o.Items[largest].Len
		segments := 1 + r.offer(o, ReadItem, largest, n)
		it := xdr.Extend(&o.xmit.req.Items)
		*it = rpcrdma2.Item{
			Disp: uint32(chunk.Position(o.Items, largest)), Length: uint32(n), Place: rpcrdma2.ExplicitRDMA,
			Segments: slices.Grow(it.Segments[:0], segments)[:segments], Targets: it.Targets[:0],
		}
	}
	o.pieces = chunk.AppendPieces(o.pieces[:0], o.StreamLen, o.Items)
}

// virtualLength returns the length of the call message with all items in it, in bytes.
func (o *Outgoing) virtualLength() int {
	n := o.StreamLen
	for i := range o.Items {
		n += xdr.Padded(o.Items[i].Len)
	}
	return n
}

// buildGroup is Build for a call in transmissions.
func (o *Outgoing) buildGroup() {
	x, h := o.xmit, &o.Header
	h.XID, h.Version, h.Credits, h.Direction = o.XID, o.version, o.credits, rpcrdma2.Call
	for i, at := 0, 0; i < len(o.Windows); i++ {
		w := &o.Windows[i]
		if w.Off == 0 {
			at = i
		}
		switch w.Use {
		case ReadItem:
			x.req.Items[0].Segments[i-at] = w.segment()
		case WriteResult:
			placement.Direction(x.req.Results, w.Index).Segments[i-at] = w.segment()
		case WriteReply:
			h.Reply, h.HasReply = append(h.Reply, w.segment()), true
			x.req.Reply[i-at] = w.segment()
		}
	}
	for i := range x.req.Results { // as a plain reply returns them
		for k := range x.req.Results[i].Items {
			h.Writes = appendSegments(h.Writes, x.req.Results[i].Items[k].Segments)
		}
	}
	if !x.placed {
		o.First, o.Inline = x.Split(o.pieces, o.MessageLength(), x.first, x.limit)
		x.req.PayloadLength = uint32(o.First)
	}
	x.Head(&h.Header, &x.req)
	x.Number(&h.Header)
	o.More = x.More
}
