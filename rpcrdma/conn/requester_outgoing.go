package conn

import (
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Use says what a window of a call is for.
type Use uint8

const (
	// ReadCall lets the peer read the call message itself (position zero).
	ReadCall Use = iota + 1
	// ReadItem lets the peer read the argument item Index.
	ReadItem
	// WriteResult lets the peer write the result Index.
	WriteResult
	// WriteReply lets the peer write the reply message (reply chunk).
	WriteReply
)

// Writes says that the peer writes what the use names; else it reads it.
func (u Use) Writes() bool { return u == WriteResult || u == WriteReply }

// Window is a piece of our memory that a call exposes to the peer: one segment
// of a chunk.
type Window struct {
	Use    Use
	Index  int
	Off    int // bytes from the start of what the use names
	Length int // bytes
	// RKey and Addr are the caller's to set between Launch and Build.
	RKey uint32
	Addr uint64
	// Revoked: the peer can't use it any more.
	Revoked bool
}

// outState is how far a call of ours is.
type outState uint8

const (
	outIdle    outState = iota
	outWaiting          // for a credit
	outReady            // has a credit, not sent
	outSent
	outReading // answered, its reply is being read
	outFencing // answered or given up; windows being invalidated
)

// Outgoing is a call that a requester makes. The caller owns it before Begin
// and after Complete.
type Outgoing struct {
	// Tag is the caller's, to find what belongs to the call.
	Tag int
	// XID is set when the call has a credit. With Again it is the caller's:
	// that of a call that was sent on a connection that is lost, which a
	// responder with a duplicate request cache knows it by.
	XID   uint32
	Again bool
	// Own says that the XID is the caller's from the start; no call in flight
	// may have it (ErrXIDInUse).
	Own bool

	// StreamLen and Items describe the call message, MaxReply the largest
	// reply message without its results that are DDP-eligible, Results the
	// largest size of each of these. Set before Plan. All in bytes.
	StreamLen int
	Items     []chunk.Item
	MaxReply  int
	Results   []int
	// Asked is the operation that asks for each of Results, in the XDR stream of
	// the call message, items included. It is empty when the call is one operation.
	Asked []xdr.Span

	// Operation makes it an optional operation of version 2 in place of a
	// call: it has no RPC message, and all of the above is empty. Its answer is
	// decoded into Answer.
	Operation, Answer rpcrdma2.Body

	// Windows is what the call exposes, set by Plan.
	Windows []Window
	// Header and Inline are what goes out, set by Build; Inline is empty
	// when the message itself is read by the peer. First is the number of
	// bytes of the message in it, and More are the Sends that follow right
	// after: nothing else may go out between them.
	Header Header
	Inline []chunk.Piece
	First  int
	More   []transmission.Transmission
	// Pad is the padding of the call message, set by Plan: before items, as
	// the pieces have it. Its alignment is 0 when there is none.
	Pad oncrpc.Padding

	// Err is the outcome, valid from Complete on. When nil, the reply came:
	// inline (Take) when Long is 0, else Long bytes of it in the WriteReply
	// window; Written[i] is the number of bytes in the window of result i, 0
	// when the result is in the stream.
	Err     error
	Long    int
	Written []int
	// Parts are the reply that came inline, one part for each Send, to be copied
	// with Take.
	Parts [][]byte
	// Placed are the results that came in Sends, run after run, to be copied with
	// Take as well. Their lengths are in Written.
	Placed []PlacedResult
	// Padding is the padding of a reply that came inline.
	Padding oncrpc.Padding
	// Read, when not nil, is the reply in place of the above: the peer had us
	// read it.
	Read *Reading
	// Sent says that the call went out; a peer may have acted on it.
	Sent bool

	donesBefore uint32 // DONEs that went out before it

	state   outState
	version uint32 // of its header
	refused bool   // for its version; it is counted as a call already
	credits uint32 // to ask for
	inline  uint32 // the longest Send, in bytes, that may answer it
	pieces  []chunk.Piece
	info    []byte // of an operation

	plans       int    // of this call so far
	direct      bool   // it goes without transmissions: they came to nothing
	transmitted bool   // it is a transmission group
	uses        uint32 // credits, one for each Send
	spare       uint32 // receives reserved for its reply beyond one
	xmit        *outgoingGroup
}

// reset forgets the last use and keeps the storage.
func (o *Outgoing) reset() {
	o.Windows, o.Inline, o.pieces = o.Windows[:0], nil, o.pieces[:0]
	o.Err, o.Long, o.Written, o.Read, o.Sent = nil, 0, o.Written[:0], nil, false
	o.Pad, o.Padding = oncrpc.Padding{}, oncrpc.Padding{}
	o.First, o.More, o.Placed = 0, nil, o.Placed[:0]
	clear(o.Parts)
	o.Parts = o.Parts[:0]
	o.transmitted, o.uses, o.spare = false, 1, 0
	o.Header.clear()
}

// ChunkLength is the number of bytes of the chunk that window i is the first
// segment of.
func (o *Outgoing) ChunkLength(i int) int {
	n := o.Windows[i].Length
	for _, w := range o.Windows[i+1:] {
		if w.Off == 0 {
			break
		}
		n += w.Length
	}
	return n
}

// InSends says that result i came in Sends: what the peer may have had the choice to
// write.
func (o *Outgoing) InSends(i int) bool {
	return slices.ContainsFunc(o.Placed, func(run PlacedResult) bool { return run.Result == i })
}

// PeerError is an error header that answered a call (RFC 8166 §4.5).
type PeerError struct {
	Code      rpcrdma1.ErrCode // its number means what Version says
	Version   uint32           // of RPC-over-RDMA
	Low, High uint32           // versions that the peer speaks, with ErrVers
}

func (e *PeerError) Error() string {
	switch {
	case e.Code == rpcrdma1.ErrVers:
		return fmt.Sprintf("peer speaks RPC-over-RDMA versions %d to %d only (ERR_VERS)", e.Low, e.High)
	case e.Code == rpcrdma2.ErrInvalOption:
		return "peer does not know the operation, or has it off (INVAL_OPTION)"
	case e.Version == rpcrdma2.Version:
		return "peer could not process the call's header (BAD_HEADER)"
	}
	return "peer could not process the call's chunks (ERR_CHUNK)"
}
