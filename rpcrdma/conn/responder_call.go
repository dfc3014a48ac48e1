package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Call is a call that a responder received, or the error answer to a message
// that was none. It is reused once its answer is sent.
type Call struct {
	// Index tells calls in progress apart. Indexes are small and used again.
	Index int
	// XID of the transport header.
	XID uint32
	// RPC is the call with its arguments; valid from Deliver on. Its Peer is
	// the caller's to set.
	RPC oncrpc.Call
	// Denied, when not nil, answers the call in place of its service.
	Denied *oncrpc.DeniedError
	// Reads are the read chunks; the memory for Chunks[i] is what Fetched
	// takes at index i.
	Reads chunk.ReadList
	// Fetches are the RDMA Reads that fill it.
	Fetches []chunk.Read
	// Exposure is what the peer reads of the reply; nil if nothing. It is
	// valid until Exposed.
	Exposure *Exposure
	// Answer is what Send posts.
	Answer Answer

	transmitted bool // it came in transmissions
	group       *callGroup

	copies    *Call  // a list of those that came meanwhile, to be refused
	info      []byte // of an operation's answer
	tracked   bool   // its XID is in Responder.xids
	recv      uint32
	stream    []byte // the RPC message as it came inline
	args      int    // bytes of its header, before the arguments
	header    Header
	rkey      uint32 // the only STag in the header, if onlyRKey
	onlyRKey  bool
	writes    []chunk.Write
	pieces    []chunk.Piece
	padded    []chunk.Piece
	itemPiece [1]chunk.Piece
}

// Answer is what is posted for a call: the RDMA Writes, then one Send of
// the header and the pieces, or several. Sources of writes and pieces are the reply's
// items, its stream, and zeros.
type Answer struct {
	Header *Header
	Writes []chunk.Write
	Inline []chunk.Piece
	// More are the Sends that follow right after: nothing else may go out
	// between them.
	More []transmission.Transmission
	// Invalidate makes the last Send a Send With Invalidate of RKey.
	Invalidate bool
	RKey       uint32
	// Failed says that the answer is an error or an operation, and Writes and
	// Inline are empty.
	Failed bool
}

// Offered counts the segments of a call's read chunks, of its write chunks and
// of its reply chunk, and the bytes that the last two have room for. It is valid
// until Reply, which changes the lists.
func (c *Call) Offered() (reads, writes, reply int, bytes uint64) {
	reads = len(c.header.Reads)
	for _, w := range c.header.Writes {
		writes += len(w)
		for i := range w {
			bytes += uint64(w[i].Length)
		}
	}
	reply = len(c.header.Reply)
	for i := range c.header.Reply {
		bytes += uint64(c.header.Reply[i].Length)
	}
	return reads, writes, reply, bytes
}
