// Package conn is RPC-over-RDMA as a state machine without I/O (RFC 8166):
// no sockets, verbs, goroutines, locks or clock. One event goes in, the
// actions to carry out come out as data, in order. There is one type for each
// role: Responder answers calls, Requester makes them.
//
// A caller's duties:
//
//   - give a role one event at a time, in the order in which things happened
//     on the connection, and carry the actions out in order before the next
//     event of the same connection is given;
//   - leave a received message's bytes alone until an action gives its
//     receive back;
//   - stop after a Fail action: the role is dead;
//   - treat the fields of Call and Outgoing as read-only but where they say
//     otherwise, and keep away from them after the event that ended them.
package conn

import "errors"

// Reasons for the end of a connection that a role's Fail action carries.
var (
	// ErrBacklog means that the peer sends calls but does not take their replies.
	ErrBacklog = errors.New("conn: peer does not take its replies")
	// ErrInvalidated means that the peer invalidated memory that was not the call's.
	ErrInvalidated = errors.New("conn: peer invalidated memory of another call")
)

// Bounds of what a peer can make us hold.
const (
	// MaxMessage is the most bytes of one message in chunks: a payload of
	// 1 MiB and what goes with it.
	MaxMessage = 1<<20 + 64<<10
	// maxReadChunks is the most read chunks of one call.
	maxReadChunks = 16
)
