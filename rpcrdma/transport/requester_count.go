package transport

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Statistics of a requester: calls of the forward direction and their replies. link.mu
// is held.

// countCall counts a call that is being sent.
func (r *Requester) countCall(p *pending) {
	if r.reverse {
		return
	}
	s := &r.stats
	s.InFlightSum += uint64(r.core.InFlight())
	s.BacklogSum += uint64(r.core.Waiting())
	size := chunk.PiecesLength(p.out.StreamLen, p.out.Items)
	for i := range p.out.Windows {
		w := &p.out.Windows[i]
		switch w.Use {
		case conn.ReadCall:
			s.ReadChunks++
			if w.Off == 0 {
				s.LongCalls++
			}
		case conn.ReadItem:
			s.ReadChunks++
			size += w.Length
			if w.Off == 0 {
				size += xdr.Pad(p.out.Items[w.Index].Len)
			}
		case conn.WriteResult:
			s.WriteChunks++
			s.OfferedBytes += uint64(w.Length)
		case conn.WriteReply:
			s.ReplyChunks++
			s.OfferedBytes += uint64(w.Length)
		}
	}
	r.sizes.Calls.add(size)
}

// countReply counts the outcome of a call.
func (r *Requester) countReply(p *pending) {
	s, o := &r.stats, &p.out
	if o.Err != nil {
		if errors.Is(o.Err, conn.ErrBadReply) {
			s.BadReplies++
		}
		return
	}
	if r.reverse {
		return
	}
	size, reads := len(p.reply), 0
	for i := range o.Windows {
		n, w := 0, &o.Windows[i]
		switch w.Use {
		case conn.WriteResult:
			if !o.InSends(w.Index) {
				n = o.Written[w.Index]
			}
		case conn.WriteReply:
			n = o.Long
		default:
			reads++
		}
		if part := min(n-w.Off, w.Length); part > 0 {
			s.PeerWrites++
			s.PlacedBytes += uint64(part)
			size += part
		}
		if w.Off == 0 {
			size += xdr.Pad(n)
		}
	}
	s.RoundTrips++
	if reads > 0 {
		s.RoundTrips++
		s.CallsRead++
		s.PeerReads += uint64(reads)
	}
	if o.Read != nil {
		s.RoundTrips++
		size += o.Read.Size()
	}
	r.sizes.Replies.add(size)
}

// unmarshaled counts a call that could not be composed and returns err.
func (r *Requester) unmarshaled(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.FailedMarshal++
	return err
}

// exposedWindows returns the number of windows that the peer can still use.
func (p *pending) exposedWindows() (n int) {
	for i := range p.windows {
		if !p.out.Windows[i].Revoked {
			n++
		}
	}
	return n
}
