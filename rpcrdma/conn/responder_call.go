package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Call is a call that a responder received, or the error answer to a message that is not a
// call. It is reused once its answer is sent.
type Call struct {
	// Index identifies a call in progress. Indexes are small and reused.
	Index int
	// XID of the transport header.
	XID uint32
	// RPC is the call with its arguments, valid from Deliver on. The caller sets its Peer.
	RPC oncrpc.Call
	// Denied, if not nil, answers the call instead of its service.
	Denied *oncrpc.DeniedError
	// Reads holds the read chunks. The caller gives the memory of Chunks[i] to Fetched at
	// index i.
	Reads chunk.ReadList
	// Fetches are the RDMA Reads that fill this memory.
	Fetches []chunk.Read
	// Exposure is the part of the reply that the peer reads, or nil. It is valid until
	// Exposed.
	Exposure *Exposure
	// Ahead is what Write asks to post. It is valid until the next event.
	Ahead []chunk.Write
	// Answer is what Send asks to post.
	Answer Answer

	transmitted bool // it came in transmissions
	early       bool // it was delivered before its chunks were read
	group       *callGroup

	copies   *Call  // calls that came meanwhile with the same XID, to be refused
	info     []byte // encoded answer to an operation
	tracked  bool   // its XID is in Responder.xids
	recv     uint32
	stream   []byte // the RPC message as it came inline
	args     int    // length of its header, before the arguments, in bytes
	header   Header
	rkey     uint32 // the only STag in the header, if onlyRKey
	onlyRKey bool
	writes   []chunk.Write
	ahead    []int // for each result, how much of it is written already
	pieces   []chunk.Piece
	padded   []chunk.Piece
}

// Answer is what is posted for a call: the RDMA Writes, then one or several Sends with the
// header and the pieces. The data of writes and pieces comes from the reply's items, its
// stream, and zeros.
type Answer struct {
	Header *Header
	Writes []chunk.Write
	Inline []chunk.Piece
	// More are the Sends that follow. Nothing else may go out between them.
	More []transmission.Transmission
	// Invalidate makes the last Send a Send With Invalidate of RKey.
	Invalidate bool
	RKey       uint32
	// Failed means that the answer is an error or an operation. Writes and Inline are empty
	// then.
	Failed bool
}

// Offered returns the number of segments in a call's read chunks, write chunks and reply
// chunk, and the size of the last two in bytes. It is valid until Reply, which changes the
// lists.
func (c *Call) Offered() (reads, writes, reply int, bytes uint64) {
	reads = len(c.header.Reads)
	for _, w := range c.header.Writes {
		writes += len(w)
		bytes += chunk.Capacity(w)
	}
	return reads, writes, len(c.header.Reply), bytes + chunk.Capacity(c.header.Reply)
}
