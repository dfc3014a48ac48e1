// Package conn is RPC-over-RDMA as a state machine without I/O (RFC 8166):
// no sockets, verbs, goroutines, locks or clock. One event goes in, the
// actions to carry out come out as data, in order. There is one type for each
// role: Responder answers calls, Requester makes them. A connection may have
// both, one for each direction (RFC 8167). Inbound decodes what arrives, decides
// its direction, and says which role takes it.
//
// A caller's duties:
//
//   - give every message that arrives to the connection's Inbound, and then, at once
//     or when it is read, to the role that it names;
//   - give a role one event at a time, in the order in which things happened
//     on the connection, and carry the actions out in order before the next
//     event of the same connection is given;
//   - leave a received message's bytes alone until an action gives its
//     receive back;
//   - stop after a Fail action: the role is dead;
//   - treat the fields of Call and Outgoing as read-only but where they say
//     otherwise, and keep away from them after the event that ended them.
package conn

import (
	"errors"
	"slices"
)

// Reasons for the end of a connection that a role's Fail action carries.
var (
	// ErrBacklog means that the peer sends calls but does not take their replies.
	ErrBacklog = errors.New("conn: peer does not take its replies")
	// ErrInvalidated means that the peer invalidated memory that was not the call's.
	ErrInvalidated = errors.New("conn: peer invalidated memory of another call")
)

// Reasons that Report carries, besides those of packages chunk, oncrpc and
// rpcrdma1.
var (
	// ErrDuplicate means that a call with this XID is in progress.
	ErrDuplicate = errors.New("conn: a call with this XID is in progress")
	// ErrUncalled means that a message answers or acknowledges nothing of ours.
	ErrUncalled = errors.New("conn: answers or acknowledges nothing of ours")
	// ErrDisabled means that the message needs an extension that is off.
	ErrDisabled = errors.New("conn: header type of an extension that is off")
	// ErrMessageChunk means that the header type and the read list disagree on
	// where the RPC message is.
	ErrMessageChunk = errors.New("conn: header type and position-zero chunk disagree")
	// ErrXID means that the XIDs of transport header and RPC message differ,
	// or that there is no RPC message.
	ErrXID = errors.New("conn: XID of the RPC message is not the transport header's")
	// ErrChunkInHeader means that a read chunk lies in the RPC header.
	ErrChunkInHeader = errors.New("conn: read chunk inside of the RPC header")
	// ErrReplyTooLong means that the peer offered too little for the reply.
	ErrReplyTooLong = errors.New("conn: reply longer than inline and chunks allow")
	// ErrExposures means that too many replies are exposed that the peer does
	// not acknowledge.
	ErrExposures = errors.New("conn: too many replies for the peer to read")
	// ErrReverseChunks means that a call from server to client has chunks.
	ErrReverseChunks = errors.New("conn: chunks in a call of the reverse direction")
	// ErrNoMemory means that we had no memory for the call's chunks.
	ErrNoMemory = errors.New("conn: no memory for the call's chunks")
)

// Bounds of what a peer can make us hold.
const (
	// MaxMessage is the most bytes of one message in chunks: a payload of
	// 1 MiB and what goes with it.
	MaxMessage = 1<<20 + 64<<10
	// maxReadChunks is the most read chunks of one call.
	maxReadChunks = 16
)

// without takes x out of a list whose order does not matter.
func without[T comparable](list []T, x T) []T {
	var zero T
	i, last := slices.Index(list, x), len(list)-1
	if i < 0 {
		return list
	}
	list[i], list[last] = list[last], zero
	return list[:last]
}
