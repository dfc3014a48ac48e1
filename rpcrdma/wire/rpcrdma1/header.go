package rpcrdma1

// Version is the protocol version this package encodes.
const Version = 1

// Proc is a header type (rdma_proc, RFC 5666 §4.2).
type Proc uint32

// Header types.
const (
	Msg   Proc = 0 // RDMA_MSG: the RPC message follows the header
	NoMsg Proc = 1 // RDMA_NOMSG: the RPC message is in chunks
	MsgP  Proc = 2 // RDMA_MSGP: as Msg, with padding (RFC 5666 only)
	Done  Proc = 3 // RDMA_DONE: the reply's read chunks were fetched (RFC 5666 only)
	Error Proc = 4 // RDMA_ERROR
)

// ErrCode is the code of an Error header (rdma_err).
type ErrCode uint32

// Error codes.
const (
	ErrVers  ErrCode = 1 // unsupported rdma_vers; the supported range follows
	ErrChunk ErrCode = 2 // anything else
)

// Segment is a piece of the sender's memory (xdr_rdma_segment).
type Segment struct {
	Handle uint32 // STag, R_key
	Length uint32 // bytes
	Offset uint64 // address
}

// ReadSegment is one entry of the read list (xdr_read_chunk). Entries with
// the same position form one chunk.
type ReadSegment struct {
	Position uint32 // in the XDR stream of the whole RPC message; 0: the message itself
	Segment
}

// WriteChunk is an array of segments that are filled in order
// (xdr_write_chunk).
type WriteChunk []Segment

// Header is a version-1 transport header. It is reused for each message: the slices keep
// their storage.
type Header struct {
	XID     uint32
	Version uint32 // as received; a reply or an error echoes it
	Credits uint32
	Proc    Proc

	Reads  []ReadSegment
	Writes []WriteChunk
	// Reply is the reply chunk. HasReply distinguishes an empty one from none.
	Reply    WriteChunk
	HasReply bool

	// MsgP only.
	Align, Thresh uint32

	// Error only.
	Err       ErrCode
	Low, High uint32 // ErrVers
}
