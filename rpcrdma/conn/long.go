package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// Long is a message whose RPC message is in a position-zero read chunk, and whose
// header does not say which direction it is of: it may be a call, or a reply that we
// are to read (RFC 5666 §3.8). The RPC message says it, so the chunks are read
// before a role takes the message, and until then nothing is counted (RFC 8167
// §4.1, §5.3): to the roles it arrives when it is read.
type Long struct {
	// Tag is the caller's.
	Tag int
	// Reads are the read chunks, the RPC message first; Fetches are the RDMA Reads
	// that fill memory for Reads.Chunks.
	Reads   chunk.ReadList
	Fetches []chunk.Read

	header Header
	recv   uint32
	inv    Invalidation
}

// typeSize is the number of bytes of an RPC message that say what it is: its XID
// and its type.
const typeSize = 8

// long gives what is to be read of a message before it is known which role takes
// it; nil if that is known, or if a message like that is refused unread. What it
// holds is bounded as for calls and replies: readLimits each, maxReadings of them,
// and each keeps its receive.
func (in *Inbound) long(a *Arrival) *Long {
	h := &a.header
	if a.known || a.err != nil || len(h.Reads) == 0 || h.Proc != rpcrdma1.NoMsg || !in.either() || in.reading >= maxReadings {
		return nil
	}
	l := new(Long)
	if n := len(in.longs); n > 0 {
		l, in.longs = in.longs[n-1], in.longs[:n-1]
	}
	if l.Reads.Parse(h.Reads, readLimits) != nil || !l.Reads.Long() || l.Reads.Chunks[0].Length < typeSize ||
		a.Did && !in.requester.invalidated(h.XID, a.Invalidation) {
		in.longs = append(in.longs, l)
		return nil
	}
	l.Fetches = l.Reads.AppendReads(l.Fetches[:0], in.maxTransfer())
	l.header, a.header = a.header, l.header
	l.recv, l.inv = a.Recv, a.Invalidation
	in.reading++
	return l
}

// either says whether long calls and long replies may come, and be read.
func (in *Inbound) either() bool {
	if in.server() {
		return in.requester != nil && !in.responder.peer.unreadable()
	}
	return in.served && in.requester.reads()
}

// maxTransfer is the most that one RDMA Read moves.
func (in *Inbound) maxTransfer() uint32 {
	if in.server() {
		return in.responder.cfg.MaxTransfer
	}
	return in.requester.cfg.MaxTransfer
}

// invalidated notes that a message under xid, which may answer a call of ours,
// invalidated memory. False says that it is not that call's.
func (r *Requester) invalidated(xid uint32, inv Invalidation) bool {
	o, known := r.sent[xid]
	return known && (o == nil || o.state == outSent) && r.revoked(xid, o, inv)
}

// Read is the event that all RDMA Reads of l have completed. message holds the
// bytes of l.Reads.Chunks[0]. What it gives is for the role that Call names, which
// asks for the chunks as if they had not been read. l is not valid any more.
func (in *Inbound) Read(l *Long, message []byte) *Arrival {
	a := &in.arrival
	a.header, l.header = l.header, a.header
	a.Recv, a.Invalidation, a.Long, a.err, a.body = l.recv, l.inv, nil, nil, nil
	a.direction, a.known = directionOf(message)
	if in.direct(a); !a.Call {
		a.Invalidation = Invalidation{} // noted when it arrived
	}
	in.reading--
	in.longs = append(in.longs, l)
	return a
}
