package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Reading is a reply whose read chunks are being read (RFC 5666 §3.8). The caller owns it
// once its call has completed with it. If the call was given up, it ends with ReplyFetched.
type Reading struct {
	// Reads holds the read chunks. Fetches are the RDMA Reads that fill memory for
	// Reads.Chunks.
	Reads   chunk.ReadList
	Fetches []chunk.Read
	// Stream is the reply message as it came inline. It is empty when Reads.Long().
	Stream []byte
	// Results[i], if there are any, is the result to which Reads.Items()[i] belongs.
	// Otherwise the items belong into the message.
	Results []int

	xid uint32
	out *Outgoing // nil once the call was given up
}

// Out returns the call that the reply is for, or nil once the call was given up.
func (rd *Reading) Out() *Outgoing { return rd.out }

// Size returns the length of the reply without roundup padding, in bytes.
func (rd *Reading) Size() int {
	n := len(rd.Stream)
	for i := range rd.Reads.Chunks {
		n += rd.Reads.Chunks[i].Length
	}
	return n
}

// maxReadings limits how many replies are read at once, including those of calls given up.
const maxReadings = settings.CreditsLimit

// MayRead is the event that the connection, which is up, allows us to do RDMA Reads.
func (r *Requester) MayRead() { r.mayRead = true }

// canRead reports whether the connection allows replies with read chunks.
func (r *Requester) canRead() bool { return r.mayRead && r.negotiation.way.acknowledges() }

// reads reports whether replies with read chunks are accepted now.
func (r *Requester) reads() bool {
	return r.canRead() && r.settings.Extensions.Has(settings.ExtReadReplies)
}

// readsFor is reads for the reply to a call that was sent. The peer may have exposed it before
// the extension was turned off.
func (r *Requester) readsFor(xid uint32) bool {
	if o := r.sent[xid]; o != nil {
		return o.readable || r.reads()
	}
	return r.debts[xid].readable || r.reads()
}

// takeReads checks a reply with a read list, then reads it. It acknowledges a refused reply
// as well, so that the peer can free its memory. A Long is taken even if the extension was
// turned off meanwhile.
func (r *Requester) takeReads(o *Outgoing, a *Arrival, acts []Action) []Action {
	if !a.reads && !o.readable && !r.reads() {
		o.Err = ErrBadReply
		return acts
	}
	rd := &Reading{xid: o.XID, out: o}
	if len(r.readings) >= maxReadings || !r.sound(rd, o, a.body) {
		o.Err = ErrBadReply
		return r.owe(o.XID, acts)
	}
	r.spend.Owe()
	o.state, o.Read = outReading, rd
	r.readings = append(r.readings, rd)
	rd.Fetches = rd.Reads.AppendReads(nil, r.cfg.MaxTransfer)
	return append(acts, FetchReply{Reading: rd})
}

// sound checks a reply with a read list against its call and fills rd. A message in a
// position-zero chunk may be longer than the call expected: that is the chunk's purpose.
// Results may not.
func (r *Requester) sound(rd *Reading, o *Outgoing, body []byte) bool {
	h := &r.header
	segments := append([]rpcrdma1.ReadSegment(nil), h.Reads...)
	if rd.Reads.Parse(segments, readLimits) != nil {
		return false
	}
	if written, err := r.returned(o); err != nil || written != 0 {
		return false
	}
	size := len(body)
	switch long := rd.Reads.Long(); {
	case long && h.Proc == rpcrdma1.NoMsg:
		size = rd.Reads.Chunks[0].Length
	case !long && h.Proc == rpcrdma1.Msg:
		if !isReply(body, o.XID) {
			return false
		}
		rd.Stream = append(rd.Stream, body...)
	default:
		return false
	}
	if rd.Reads.Place(size) != nil {
		return false
	}
	for _, it := range rd.Reads.Items() {
		// With results in write chunks as well, a position is ambiguous.
		if it.At < oncrpc.AcceptedReplySize || slices.ContainsFunc(o.Written, func(n int) bool { return n > 0 }) {
			return false
		}
	}
	return rd.assign(o)
}

// assign matches items with results. The candidates are the results that the peer could
// have written and did not, in order. If there are as many items as candidates, each item
// is one of them. Otherwise the items are parts of the message that the upper layer finds
// in its stream. It returns false if an item is longer than its result may be.
func (rd *Reading) assign(o *Outgoing) bool {
	items := rd.Reads.Items()
	for i, n := range o.Written {
		if n == 0 && o.Results[i] > 0 {
			rd.Results = append(rd.Results, i)
		}
	}
	if len(rd.Results) != len(items) {
		rd.Results = nil
	}
	for k, i := range rd.Results {
		if n := o.Results[i]; items[k].Length > xdr.Padded(n) {
			return false
		}
	}
	return true
}

// ReplyFetched is the event that all RDMA Reads of rd have completed.
func (r *Requester) ReplyFetched(rd *Reading, acts []Action) []Action {
	if r.lost != nil {
		return acts
	}
	r.readings = without(r.readings, rd)
	acts = append(acts, SendDone{XID: rd.xid})
	if o := rd.out; o != nil {
		r.Counters.Replies++
		acts = r.finish(o, acts)
	}
	return r.wake(acts)
}
