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

// Use is the purpose of a call's window.
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

// Writes reports whether the peer writes to the window. Otherwise it reads from it.
func (u Use) Writes() bool { return u == WriteResult || u == WriteReply }

// Window is a piece of our memory that a call exposes to the peer: one segment of a chunk.
type Window struct {
	Use    Use
	Index  int
	Off    int // from the start of the message, item or result, in bytes
	Length int // in bytes
	// The caller sets RKey and Addr between Launch and Build.
	RKey uint32
	Addr uint64
	// Revoked means that the peer can no longer access the window.
	Revoked bool
}

// outState is the progress of an outgoing call.
type outState uint8

const (
	outIdle    outState = iota
	outWaiting          // for a credit
	outReady            // has a credit, not sent
	outSent
	outReading // answered, the reply is being read
	outFencing // answered or given up; the windows are being invalidated
)

// Outgoing is a call that a requester makes. The caller owns it before Begin and after
// Complete.
type Outgoing struct {
	// Tag is for the caller's use, to find what belongs to the call.
	Tag int
	// XID is set when the call gets a credit. With Again, the caller sets it to the XID of
	// a call that was sent on a lost connection, so that a responder with a duplicate
	// request cache recognizes it.
	XID   uint32
	Again bool
	// Own means that the caller chose the XID. No call in flight may have it (ErrXIDInUse).
	Own bool

	// StreamLen and Items describe the call message. MaxReply is the largest reply message
	// without its DDP-eligible results. Results are the largest sizes of these. All are in
	// bytes, and set before Plan.
	StreamLen int
	Items     []chunk.Item
	MaxReply  int
	Results   []int
	// Asked is, for each of Results, the operation that asks for it, as a span of the call
	// message's XDR stream, items included. It is empty when the call is one operation.
	Asked []xdr.Span

	// Windows is what the call exposes, set by Plan.
	Windows []Window
	// Header and Inline are what goes out, set by Build. Inline is empty when the peer
	// reads the message from a chunk. First is the number of bytes of the message in
	// Inline. More holds the Sends that follow. Nothing else may go out between them. From
	// Plan until Build, Inline and More hold the pieces of the call message in order,
	// whichever way it goes.
	Header Header
	Inline []chunk.Piece
	First  int
	More   []transmission.Transmission
	// Pad is the padding before the items of the call message. Plan sets it, and the pieces
	// include it. Its alignment is 0 when there is none.
	Pad oncrpc.Padding

	// Err is the outcome, valid from Complete on. If it is nil, a reply came: inline (Take)
	// when Long is 0, else Long bytes of it in the WriteReply window. Written[i] is the
	// number of bytes in the window of result i. It is 0 when the result is in the stream.
	Err     error
	Long    int
	Written []int
	// Parts is the reply that came inline, one part for each Send. Take asks to copy it.
	Parts [][]byte
	// Placed holds the results that came in Sends, run by run. Take asks to copy them as
	// well. Written holds their lengths.
	Placed []PlacedResult
	// Padding is the padding of a reply that came inline.
	Padding oncrpc.Padding
	// Read, if not nil, is the reply in place of the fields above: the peer lets us read
	// it.
	Read *Reading
	// Sent means that the call went out. The peer may have executed it.
	Sent bool

	donesBefore uint32 // DONEs sent before this call
	readable    bool   // replies with read chunks were accepted when it was sent

	state   outState
	built   bool   // Build was called
	version uint32 // of its header
	refused bool   // its version was refused; it is already counted as a call
	credits uint32 // to ask for
	inline  uint32 // the largest Send that may answer it, in bytes
	pieces  []chunk.Piece

	plans       int    // made for this call so far
	direct      bool   // it goes without transmissions, because plans with them failed
	transmitted bool   // it is a transmission group
	uses        uint32 // credits used, one for each Send
	spare       uint32 // receives reserved for its reply beyond the first
	xmit        *outgoingGroup
}

// exposes reports whether the peer can access windows of o.
func (o *Outgoing) exposes() bool {
	return slices.ContainsFunc(o.Windows, func(w Window) bool { return !w.Revoked })
}

// reset clears o for its next use and keeps the storage.
func (o *Outgoing) reset() {
	o.Windows, o.Inline, o.pieces = o.Windows[:0], nil, o.pieces[:0]
	o.Err, o.Long, o.Written, o.Read, o.Sent = nil, 0, o.Written[:0], nil, false
	o.Pad, o.Padding = oncrpc.Padding{}, oncrpc.Padding{}
	o.First, o.More, o.Placed = 0, nil, o.Placed[:0]
	clear(o.Parts)
	o.Parts = o.Parts[:0]
	o.transmitted, o.uses, o.spare = false, 1, 0
	o.Header.Reset(rpcrdma1.Prefix{})
}

// ChunkLength returns the length, in bytes, of the chunk whose first segment is window i.
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

// InSends reports whether result i came in Sends although the peer could have written it.
func (o *Outgoing) InSends(i int) bool {
	return slices.ContainsFunc(o.Placed, func(run PlacedResult) bool { return run.Result == i })
}

// PeerError is an error header that answered a call (RFC 8166 §4.5).
type PeerError struct {
	Code      rpcrdma1.ErrCode // Version says what its number means
	Version   uint32           // of RPC-over-RDMA
	Low, High uint32           // versions that the peer speaks, for ErrVers
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
