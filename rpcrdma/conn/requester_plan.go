package conn

import (
	"errors"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Sizes of the parts of a header, in bytes (RFC 8166 §4.3).
const (
	emptyHeaderSize = 28 // prefix and three empty lists
	directionSize   = 4  // more in version 2
	readEntrySize   = 24
	writeEntrySize  = 24 // chunk of one segment in a write list
	replyEntrySize  = 20 // reply chunk of one segment
	segmentSize     = 16 // each further segment of a write or reply chunk
)

// maxPlans limits how often one call is planned. Each new plan has a cause: the settings or
// the peer changed something after the last one. The limit makes sure that each call ends.
const maxPlans = 32

// Plan decides how a call is sent and which memory it exposes (o.Windows). The caller gets
// the memory, then gives Begin.
func (r *Requester) Plan(o *Outgoing) error {
	if err := o.countPlan(r.cfg.Reverse); err != nil {
		return err
	}
	if o.tooLong() {
		return ErrCallTooLong
	}
	size := r.planExplicit(o)
	if len(o.Windows) > 0 && !o.direct && r.transmits() {
		if r.planGroup(o) {
			return nil
		}
		size = r.planExplicit(o)
	}
	if r.cfg.Reverse && len(o.Windows) > 0 {
		return ErrCallTooLong
	}
	if r.unreadable() && o.reads() {
		return ErrNoReads
	}
	if r.negotiation.way.pads() {
		r.pad(o, size)
	}
	o.Inline = o.pieces
	return nil
}

// tooLong reports whether the call, or the reply that it expects, exceeds our limits.
func (o *Outgoing) tooLong() bool {
	results := 0
	for _, n := range o.Results {
		results += n
	}
	return o.virtualLength() > MaxMessage || o.MaxReply > MaxMessage || results > MaxMessage || len(o.Results) > rpcrdma1.MaxWriteChunks
}

// countPlan counts the plans of a call. It starts again at 0 unless the last plan ended
// with ErrReplan. After half of the plans, a call goes without transmissions, because plans
// with them depend on most. In the reverse direction long calls have no other way.
func (o *Outgoing) countPlan(reverse bool) error {
	if !errors.Is(o.Err, ErrReplan) {
		o.plans, o.direct, o.refused = 0, false, false
	}
	o.Err = nil
	o.plans++
	if o.plans > maxPlans/2 && !reverse {
		o.direct = true
	}
	if o.plans > maxPlans {
		return ErrUnsettled
	}
	return nil
}

// planExplicit plans a call as one message, with chunks for what does not go inline. It
// returns the size of the header, in bytes.
func (r *Requester) planExplicit(o *Outgoing) (size int) {
	o.reset()
	o.version, o.inline = r.negotiation.way.number(), r.ReplyLimit()
	size = r.negotiation.way.empty() + r.planReply(o)
	r.planCall(o, size)
	return size
}

// planReply offers memory for the reply and returns how much that adds to the header, in
// bytes. A result gets a write chunk when it is large, or when the reply might not fit
// inline. The reply gets a reply chunk when what is left of it, beside the entries of the
// write chunks, might not fit. A responder without a reply chunk may send more than our
// receives hold, so planReply assumes the largest reply that the upper layer allows.
func (r *Requester) planReply(o *Outgoing) (size int) {
	room := int(r.ReplyLimit()) - r.negotiation.way.empty()
	fits, least := o.inStream(0) <= room, 1
	if fits {
		least = max(int(r.settings.DDPMinChunk), 1)
	}
	o.unwritten()
	chunks := o.largeResults(least)
	for i, n := range o.Results[:chunks] {
		// Roundup padding may be written too (RFC 5666 §3.7).
		more := r.offer(o, WriteResult, i, max(xdr.Padded(n), 4))
		size += writeEntrySize + more*segmentSize
	}
	if rest := o.inStream(chunks); size+rest > room {
		more := r.offer(o, WriteReply, 0, xdr.Padded(rest))
		size += replyEntrySize + more*segmentSize
	}
	return size
}

// offer adds windows for n bytes, the segments of one chunk. It returns how many windows
// there are beyond the first.
func (r *Requester) offer(o *Outgoing, use Use, index, n int) (more int) {
	for off := 0; off < n; off += r.cfg.MaxSegment {
		o.Windows = append(o.Windows, Window{Use: use, Index: index, Off: off, Length: min(n-off, r.cfg.MaxSegment)})
	}
	return r.segments(n) - 1
}

// segments returns how many segments a chunk of n bytes has.
func (r *Requester) segments(n int) int { return (n-1)/r.cfg.MaxSegment + 1 }

// planCall moves an item to a read chunk when it is large or the message does not fit
// inline. If the message still does not fit, it moves the message itself. It moves one item
// only, because Linux servers mishandle several read chunks. They also overlook an item
// after a position-zero chunk, and may take the bytes that follow in the message for the
// item (pcl_alloc_read). So a message in a chunk keeps all its items.
func (r *Requester) planCall(o *Outgoing, size int) {
	room, linux := int(r.SendLimit())-size, r.negotiation.way.linux()
	if i := o.candidate(linux); i >= 0 {
		it := &o.Items[i]
		whole, entries := chunk.PiecesLength(o.StreamLen, o.Items), r.segments(it.Len)*readEntrySize
		large := it.Len >= int(r.settings.DDPMinChunk) && !r.unreadable()
		fits := whole-xdr.Padded(it.Len)+entries <= room
		if (large || whole > room) && (fits || !linux) {
			it.Chunked = true
			r.offer(o, ReadItem, i, it.Len)
			room -= entries
		}
	}
	if n := chunk.PiecesLength(o.StreamLen, o.Items); n > room {
		r.offer(o, ReadCall, 0, n)
	}
	o.pieces = chunk.AppendPieces(o.pieces[:0], o.StreamLen, o.Items)
}

// candidate puts all items into the stream and returns the index of the one to move to a
// chunk, or -1. That is the largest item, but for a Linux server the last: it writes items
// after a read chunk from the wrong place (svc_fill_write_vector).
func (o *Outgoing) candidate(linux bool) int {
	at := -1
	for i := range o.Items {
		it := &o.Items[i]
		it.Chunked = false
		if it.Len > 0 && (at < 0 || linux || it.Len > o.Items[at].Len) {
			at = i
		}
	}
	return at
}

// Launch is the event that o goes out. The caller exposes its windows and, once their keys
// are known, posts what Build makes. If Launch returns false, o completes with an error:
// ErrReplan if the version or the limits used by Plan have changed.
func (r *Requester) Launch(o *Outgoing, acts []Action) ([]Action, bool) {
	if o.state != outReady {
		return acts, false
	}
	if r.refusesCalls() {
		acts = r.Cancel(o, acts)
		o.Err = ErrNoBackward
		return acts, false
	}
	// A plan for version 2 may hold what Linux servers mishandle (planCall).
	if o.version != r.negotiation.way.number() || o.size() > int(r.SendLimit()) || !r.takesGroup(o) || o.inline > r.replyTo(o) || (o.Pad.Align != 0 && o.Pad.Align != r.padding.use()) {
		acts = r.Cancel(o, acts)
		o.Err = ErrReplan
		return acts, false
	}
	o.state, o.built, o.Sent, o.donesBefore, o.readable = outSent, false, true, r.donesSent, r.reads()
	o.credits, r.negotiation.open = r.spend.Max(), true
	if o.Pad.Align != 0 {
		r.padding.sent++
	}
	if !o.refused {
		r.Counters.Calls++
	}
	o.refused = false
	return acts, true
}

// replyTo returns the largest Send that may answer o if it were planned now, in bytes.
func (r *Requester) replyTo(o *Outgoing) uint32 {
	if o.transmitted && o.xmit.results {
		return max(r.ReplyLimit(), r.chars.Planned())
	}
	return r.ReplyLimit()
}

// size returns the length of the first Send, in bytes.
func (o *Outgoing) size() int {
	if o.transmitted {
		return o.xmit.size
	}
	n := versionOf(o.version).empty()
	for i := range o.Windows {
		switch w := &o.Windows[i]; {
		case w.Use == ReadCall:
			return 0 // always fits: the message is in a chunk
		case w.Use == ReadItem:
			n += readEntrySize
		case w.Off > 0:
			n += segmentSize
		case w.Use == WriteResult:
			n += writeEntrySize
		default:
			n += replyEntrySize
		}
	}
	if o.Pad.Align != 0 {
		n += padHeaderSize
	}
	return n + o.MessageLength()
}

// MessageLength returns the length of the call message as it goes out, in bytes, padding
// included.
func (o *Outgoing) MessageLength() int { return chunk.Length(o.pieces) }

// unreadable reports whether the peer makes no RDMA Reads.
func (r *Requester) unreadable() bool { return r.unread || r.peer.unreadable() }

// reads reports whether the peer is to read our memory.
func (o *Outgoing) reads() bool {
	return slices.ContainsFunc(o.Windows, func(w Window) bool { return !w.Use.Writes() })
}

// Build fills Header and Inline from the keys and addresses of the windows.
func (o *Outgoing) Build() {
	o.built = true
	if o.transmitted {
		o.buildGroup()
		return
	}
	h := &o.Header
	h.XID, h.Version, h.Credits, h.Proc, h.Direction = o.XID, o.version, o.credits, rpcrdma1.Msg, rpcrdma2.Call
	o.Inline, o.First = o.pieces, o.MessageLength()
	if o.Pad.Align != 0 {
		h.Proc, h.Align, h.Thresh = rpcrdma1.MsgP, o.Pad.Align, o.Pad.Thresh
	}
	for i := range o.Windows { // planned last, but goes first
		if w := &o.Windows[i]; w.Use == ReadCall {
			h.Proc, o.Inline, o.First = rpcrdma1.NoMsg, nil, 0
			h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Segment: w.segment()})
		}
	}
	for i := range o.Windows {
		switch w := &o.Windows[i]; w.Use {
		case ReadItem:
			pos := chunk.Position(o.Items, w.Index)
			h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Position: uint32(pos), Segment: w.segment()})
		case WriteResult:
			if w.Off == 0 {
				c := xdr.Extend(&h.Writes)
				*c = (*c)[:0]
			}
			last := &h.Writes[len(h.Writes)-1]
			*last = append(*last, w.segment())
		case WriteReply:
			h.Reply, h.HasReply = append(h.Reply, w.segment()), true
		}
	}
}

func (w *Window) segment() rpcrdma1.Segment {
	return rpcrdma1.Segment{Handle: w.RKey, Length: uint32(w.Length), Offset: w.Addr}
}
