package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Limits of what a responder exposes on one connection.
const (
	// MaxExposures is the largest number of replies that are exposed, or reclaimed and not
	// acknowledged. Each has a receive posted for its DONE.
	MaxExposures = 16
	// MaxExposedBytes is the largest total size of exposed replies, in bytes.
	MaxExposedBytes = 4 * MaxMessage
)

// Exposure is a reply that the peer reads from our memory (RFC 5666 §3.8). The caller owns
// its memory from Expose until Unexposed, or until the connection ends.
type Exposure struct {
	// Index identifies an exposure. It is below MaxExposures, and reused.
	Index int
	// Chunks are the read chunks, of one segment each.
	Chunks []ExposedChunk
	// Bytes is the total length of all chunks.
	Bytes int

	xid    uint32
	state  exposureState
	acked  bool // no DONE will come
	pieces []chunk.Piece
}

// ExposedChunk is a read chunk of a reply.
type ExposedChunk struct {
	Position uint32        // in the XDR stream of the reply; 0 means the reply itself
	Pieces   []chunk.Piece // from the reply's stream and items, and padding
	Length   int           // in bytes
	// The caller sets RKey and Addr between Expose and Exposed.
	RKey uint32
	Addr uint64
}

type exposureState uint8

const (
	exposureIdle      exposureState = iota
	exposureBinding                 // the peer does not know it yet
	exposureLive                    // the reply has been sent
	exposureFencing                 // the memory is being invalidated
	exposureReclaimed               // the memory is freed, the DONE has not come
)

// exposures holds a responder's exposures.
type exposures struct {
	all   []*Exposure // by Index
	live  int         // number in exposureBinding and exposureLive
	bytes int         // not Unexposed yet
}

// find returns the exposure for an XID, or nil.
func (x *exposures) find(xid uint32) *Exposure {
	for _, e := range x.all {
		if e.state != exposureIdle && e.xid == xid {
			return e
		}
	}
	return nil
}

// take returns a free exposure, or nil if there is none.
func (x *exposures) take(xid uint32) *Exposure {
	i := slices.IndexFunc(x.all, func(e *Exposure) bool { return e.state == exposureIdle })
	if i < 0 {
		if i = len(x.all); i == MaxExposures {
			return nil
		}
		x.all = append(x.all, &Exposure{Index: i})
	}
	e := x.all[i]
	e.Chunks, e.pieces, e.Bytes = e.Chunks[:0], e.pieces[:0], 0
	e.xid, e.state, e.acked = xid, exposureBinding, false
	return e
}

// add adds a chunk made of pieces, n bytes long.
func (e *Exposure) add(position, n int, pieces ...chunk.Piece) {
	at := len(e.pieces)
	e.pieces = append(e.pieces, pieces...)
	e.Chunks = append(e.Chunks, ExposedChunk{Position: uint32(position), Pieces: e.pieces[at:len(e.pieces):len(e.pieces)], Length: n})
	e.Bytes += n
}

// tooLong answers a call whose reply cannot be sent in any way.
func (r *Responder) tooLong(c *Call, acts []Action) []Action {
	r.Counters.TooLong++
	return r.refuse(c, rpcrdma1.ErrChunk, ErrReplyTooLong, acts)
}

// replyByRead lets the peer read a reply that does not fit into what the peer offered. The
// peer reads the items, if the rest fits inline and no item is in a write chunk. Otherwise
// it reads the message. The items are planned as for a reply chunk that is too small.
func (r *Responder) replyByRead(c *Call, streamLen int, items []chunk.Item, acts []Action) []Action {
	if r.unread || !r.settings.Extensions.Has(settings.ExtReadReplies) || !versionOf(c.header.Version).acknowledges() {
		return r.tooLong(c, acts)
	}
	rest := chunk.PiecesLength(streamLen, items)
	if rest > MaxMessage {
		return r.tooLong(c, acts)
	}
	e := r.newExposure(c.XID, rest)
	if e == nil {
		return r.refuse(c, rpcrdma1.ErrChunk, ErrExposures, acts)
	}
	h := &c.header
	r.fillWrites(c, items)
	chunk.Unused(h.Reply)
	limit, header := int(r.SendLimit()), h.Size()
	switch {
	case r.exposeItems(e, streamLen, items, limit-header):
		c.pieces = chunk.AppendPieces(c.pieces[:0], streamLen, items)
	case header+readEntrySize <= limit:
		c.pieces = chunk.AppendPieces(c.pieces[:0], streamLen, items)
		e.add(0, rest, c.pieces...)
		h.Proc, c.pieces = rpcrdma1.NoMsg, c.pieces[:0]
	default:
		e.state = exposureIdle
		return r.tooLong(c, acts)
	}
	c.Exposure = e
	r.exposures.live++
	r.exposures.bytes += e.Bytes
	r.grants.Reserve()
	acts = r.wantReceives(acts)
	return append(acts, Expose{Call: c})
}

// newExposure returns an exposure for at most n bytes, or nil if that exceeds the limits.
// There is one exposure per XID, so that each DONE is unambiguous.
func (r *Responder) newExposure(xid uint32, n int) *Exposure {
	receives := max(r.grants.Limit(), r.grants.Target()) + credit.Slack + r.grants.Dones() + 1
	if r.exposures.bytes+n > MaxExposedBytes || receives > r.cfg.MaxReceives || r.exposures.find(xid) != nil {
		return nil
	}
	return r.exposures.take(xid)
}

// exposeItems puts the items into read chunks and marks them, if the rest and its header
// entries fit into room bytes. It does not do so if other items are in write chunks: the
// texts do not say whether these count in a position.
func (r *Responder) exposeItems(e *Exposure, streamLen int, items []chunk.Item, room int) bool {
	n, rest := 0, chunk.PiecesLength(streamLen, items)
	for i := range items {
		if it := &items[i]; it.Chunked {
			return false
		} else if it.Len > 0 {
			if n++; chunk.Position(items, i)%4 != 0 {
				return false
			}
			rest -= xdr.Padded(it.Len)
		}
	}
	if n == 0 || n > maxReadChunks || rest+n*readEntrySize > room {
		return false
	}
	for i := range items {
		if it := &items[i]; it.Len > 0 {
			e.add(chunk.Position(items, i), it.Len, chunk.Piece{From: chunk.Source(i), Len: it.Len})
			it.Chunked = true
		}
	}
	return true
}

// Exposed is the event that the chunks of c.Exposure hold their bytes and can be read. The
// caller has set their keys and addresses. The reply goes out.
func (r *Responder) Exposed(c *Call, acts []Action) []Action {
	e := c.Exposure
	if !r.grants.Ready() { // without it there might be no receive for the DONE
		c.Exposure, e.acked = nil, true
		r.exposures.live--
		r.grants.Unreserve()
		return r.refuse(c, rpcrdma1.ErrChunk, ErrNoMemory, r.unexpose(e, acts))
	}
	e.state = exposureLive
	h := &c.header
	for i := range e.Chunks {
		x := &e.Chunks[i]
		h.Reads = append(h.Reads, rpcrdma1.ReadSegment{
			Position: x.Position,
			Segment:  rpcrdma1.Segment{Handle: x.RKey, Length: uint32(x.Length), Offset: x.Addr},
		})
	}
	return r.conclude(c, c.pieces, acts)
}

// NotExposed is the event that there was no memory for an Expose action. Nothing is
// exposed.
func (r *Responder) NotExposed(c *Call, acts []Action) []Action {
	e := c.Exposure
	c.Exposure, e.state = nil, exposureIdle
	r.exposures.live--
	r.exposures.bytes -= e.Bytes
	r.grants.Unreserve()
	return r.refuse(c, rpcrdma1.ErrChunk, ErrNoMemory, acts)
}

// Reclaim is the event that the peer took too long to read e. The receive for its DONE
// stays posted, because the DONE may still come.
func (r *Responder) Reclaim(e *Exposure, acts []Action) []Action {
	if e.state != exposureLive || r.dead {
		return acts
	}
	r.Counters.Reclaimed++
	r.exposures.live--
	return r.drained(r.unexpose(e, acts))
}

// unexpose asks to invalidate the memory of e.
func (r *Responder) unexpose(e *Exposure, acts []Action) []Action {
	e.state = exposureFencing
	return append(acts, Unexpose{Exposure: e})
}

// Unexposed is the event that the peer can no longer read e.
func (r *Responder) Unexposed(e *Exposure) {
	r.exposures.bytes -= e.Bytes
	e.state = exposureReclaimed
	if e.acked {
		e.state = exposureIdle
	}
}

// acknowledges returns the exposure that a DONE acknowledges. It returns nil for any other
// message, and for a DONE with an unknown XID, a second DONE, or a DONE for a reply not
// sent yet.
func (r *Responder) acknowledges(h *Header, err error) *Exposure {
	if err != nil || h.Proc != rpcrdma1.Done {
		return nil
	}
	if e := r.exposures.find(h.XID); e != nil && e.state != exposureBinding && !e.acked {
		return e
	}
	return nil
}

// done processes a DONE (RFC 5666 §3.8): the peer has finished reading the reply.
func (r *Responder) done(e *Exposure, recv uint32, acts []Action) []Action {
	e.acked = true
	acts = append(acts, giveBack(recv, r.grants.Done()))
	switch e.state {
	case exposureLive:
		r.exposures.live--
		acts = r.unexpose(e, acts)
	case exposureReclaimed:
		e.state = exposureIdle
	}
	return r.drained(acts)
}
