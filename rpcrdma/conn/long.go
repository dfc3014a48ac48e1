package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// Long is a message whose RPC message is in a position-zero read chunk. It may be a call,
// or a reply that we have to read (RFC 5666 §3.8): only the RPC message shows which, not
// the header. So its chunks are read before a role takes it. Until then it counts for
// neither direction (RFC 8167 §4.1, §5.3).
type Long struct {
	// Reads holds the read chunks, the RPC message first. Fetches are the RDMA Reads that
	// fill memory for Reads.Chunks.
	Reads   chunk.ReadList
	Fetches []chunk.Read

	arrival Arrival // of the message
}

// typeSize is the length of the XID and type of an RPC message, in bytes.
const typeSize = 8

// long returns a Long if the message must be read before a role takes it. It returns nil if
// the direction is known, or if the message is refused without reading. The limits are
// those of calls and replies: readLimits for each message, and maxReadings messages. Each
// Long keeps its receive.
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
	_, called := in.requester.sent[h.XID]
	a.reads, a.early = in.requester.readsFor(h.XID), !called
	l.arrival, *a = *a, l.arrival
	in.reading++
	return l
}

// either reports whether both long calls and long replies may arrive and be read. At a client
// that is so for as long as the connection allows it RDMA Reads, whatever the settings are now:
// the server does not know them.
func (in *Inbound) either() bool {
	if in.server() {
		return in.requester != nil && !in.responder.unreadable()
	}
	return in.served && in.requester.canRead()
}

// maxTransfer returns the most bytes that one RDMA Read may move.
func (in *Inbound) maxTransfer() uint32 {
	if in.server() {
		return in.responder.cfg.MaxTransfer
	}
	return in.requester.cfg.MaxTransfer
}

// Read is the event that all RDMA Reads of l have completed. message holds the bytes of
// l.Reads.Chunks[0]. Give the Arrival to the role that its Call names. The role asks for
// the chunks again, as if they had not been read. l is no longer valid.
func (in *Inbound) Read(l *Long, message []byte) *Arrival {
	a := &in.arrival
	*a, l.arrival = l.arrival, *a
	a.Long, a.body = nil, nil
	a.direction, a.known = directionOf(message)
	if in.direct(a); !a.Call {
		a.Invalidation = Invalidation{} // recorded when the message arrived
	}
	in.reading--
	in.longs = append(in.longs, l)
	return a
}
