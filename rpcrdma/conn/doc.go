// Package conn implements the RPC-over-RDMA protocol (RFC 8166) as a state machine without
// I/O: it uses no sockets, verbs, goroutines, locks or clock. The caller gives one event
// and gets back the actions to carry out, as data, in order. Responder answers calls and
// Requester makes them. A connection may have both, one for each direction (RFC 8167).
// Inbound decodes each message that arrives and decides which role takes it.
//
// The caller must:
//
//   - give every message that arrives to the connection's Inbound. Then give it to the
//     role that Inbound names, at once or after its chunks were read;
//   - give a role one event at a time, in the order in which things happened on the
//     connection, and start all actions of an event, in order, before the connection's
//     next event;
//   - leave the bytes of a received message unchanged until an action gives its receive
//     back;
//   - stop after a Fail action, because the role has ended;
//   - treat the fields of Call and Outgoing as read-only unless their comment says
//     otherwise, and not use them after the event that ended the call.
package conn

import (
	"errors"
	"slices"
)

// Reasons why a connection ends. A Fail action carries one of them.
var (
	// ErrBacklog means that the peer sends calls but does not take their replies.
	ErrBacklog = errors.New("conn: peer does not take its replies")
	// ErrInvalidated means that the peer invalidated memory that does not belong to the
	// call.
	ErrInvalidated = errors.New("conn: peer invalidated memory of another call")
)

// Reasons that a Report action carries, besides those of packages chunk, oncrpc and
// rpcrdma1.
var (
	// ErrDuplicate means that a call with this XID is in progress.
	ErrDuplicate = errors.New("conn: a call with this XID is in progress")
	// ErrUncalled means that a message answers or acknowledges nothing that we sent.
	ErrUncalled = errors.New("conn: message answers or acknowledges nothing that we sent")
	// ErrDisabled means that the message needs an extension that is off.
	ErrDisabled = errors.New("conn: message needs an extension that is off")
	// ErrMessageChunk means that the header type and the read list disagree about where the
	// RPC message is.
	ErrMessageChunk = errors.New("conn: header type and position-zero chunk disagree")
	// ErrXID means that the transport header and the RPC message have different XIDs, or
	// that there is no RPC message.
	ErrXID = errors.New("conn: RPC message and transport header have different XIDs")
	// ErrChunkInHeader means that a read chunk has a position inside the RPC header.
	ErrChunkInHeader = errors.New("conn: read chunk inside the RPC header")
	// ErrReplyTooLong means that the reply does not fit into what the peer offered for it.
	ErrReplyTooLong = errors.New("conn: reply does not fit inline or into the chunks offered")
	// ErrExposures means that the peer left too many exposed replies unacknowledged.
	ErrExposures = errors.New("conn: too many replies wait for the peer to read them")
	// ErrReverseChunks means that a call from server to client has chunks.
	ErrReverseChunks = errors.New("conn: chunks in a call of the reverse direction")
	// ErrNoMemory means that there was no memory for the call's chunks.
	ErrNoMemory = errors.New("conn: no memory for the call's chunks")
)

// Limits of what a peer can make us hold.
const (
	// MaxMessage is the largest message in chunks, in bytes: a payload of 1 MiB and the
	// rest of its RPC message.
	MaxMessage = 1<<20 + 64<<10
	// maxReadChunks is the largest number of read chunks in one call.
	maxReadChunks = 16
)

// without removes x from a list whose order does not matter.
func without[T comparable](list []T, x T) []T {
	var zero T
	i, last := slices.Index(list, x), len(list)-1
	if i < 0 {
		return list
	}
	list[i], list[last] = list[last], zero
	return list[:last]
}
