package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"

// Version is the protocol version this package encodes.
const Version = 2

// Header types (rdma_proc). Those that version 1 has, too, have its numbers.
const (
	Msg      = rpcrdma1.Msg     // RDMA2_MSG: the RPC message follows the header
	NoMsg    = rpcrdma1.NoMsg   // RDMA2_NOMSG: the RPC message is in chunks
	Error    = rpcrdma1.Error   // RDMA2_ERROR
	Optional = rpcrdma1.Proc(5) // RDMA2_OPTIONAL
)

// Error codes (rdma_err).
const (
	ErrVers        = rpcrdma1.ErrVers    // unsupported rdma_vers; the supported range follows
	ErrBadHeader   = rpcrdma1.ErrCode(2) // RDMA2_ERR_BAD_HEADER; version 1's ERR_CHUNK
	ErrInvalOption = rpcrdma1.ErrCode(3) // RDMA2_ERR_INVAL_OPTION: unknown or disabled rdma_opttype
)

// Direction is the direction of a message (rdma_direction, rdma_optdir). It decides which
// XID space and which credits the message uses.
type Direction uint32

// The directions, numbered like msg_type of RFC 5531.
const (
	Call  Direction = 0 // requester to responder
	Reply Direction = 1 // responder to requester
)

// The parts of chunk lists are those of version 1.
type (
	// Segment is a piece of the sender's memory (rpcrdma2_segment).
	Segment = rpcrdma1.Segment
	// ReadSegment is one entry of the read list (rpcrdma2_read_segment).
	ReadSegment = rpcrdma1.ReadSegment
	// WriteChunk is an array of segments that are filled in order
	// (rpcrdma2_write_chunk).
	WriteChunk = rpcrdma1.WriteChunk
)

// Header is a version-2 transport header: the fields shared with version 1 (without Align
// and Thresh), and its own. It is reused for each message: the slices keep their storage.
type Header struct {
	rpcrdma1.Header

	// For Msg, NoMsg and Optional. An Error has none: it always goes from responder to
	// requester.
	Direction Direction

	// For Optional only.
	Option OptType
	// Info is the encoded body (rdma_optinfo). After Decode it aliases the message.
	Info []byte
}
