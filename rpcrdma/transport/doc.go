// Package transport runs the actions of package conn on verbs. Each connection has one
// queue pair and one completion queue. Registered memory is pooled. A goroutine per busy
// connection polls, and serves calls that come alone or are very short. Workers serve the
// others. A caller that is alone on its connection polls the connection itself
// (requester_lead.go). A caller that does not wait leaves the outcome of its call to the
// goroutine that polls (requester_go.go).
//
// A Host holds what the connections of one listener or dialer share: the protection domain,
// memory, workers, and one ticking goroutine. A link is one connection with its queues,
// whatever its role. Responder and Requester are the roles.
//
// The caller must:
//
//   - Close every connection, then the Host;
//   - not call Close or Drain of a connection from that connection's handler, because both
//     wait for the handler.
//
// Locks. link.mu guards the protocol core and the work requests that wait for the queue
// pair, so that the device gets the core's decisions in order. releaseAndPost posts these
// requests after it has released the lock (post.go). No goroutine holds the lock while it waits
// or while a service runs. Lock order: Host.mu, link.mu, regmem.Pool.mu, the provider's locks.
//
// Data may pass through a service in parts: it may say that the first bytes of a result are
// final, which are then written ahead of the reply (responder_ahead.go), and it may get a
// call whose items are still being read (responder_early.go).
//
// Memory of a connection:
//
//   - a few KiB of bookkeeping, and up to 28 KiB more while busy, once the whole send queue
//     was in use;
//   - (8 + 2) receives until its first call, then (credits + 2), each of
//     inline.receive_size bytes;
//   - for each call in progress, twice the inline send limit, and its read chunks and its
//     reply while they exist;
//   - with extensions.read_replies, up to 16 receives and 4.25 MiB of replies that the peer
//     reads (conn.MaxExposures);
//   - with extensions.backchannel, up to (credits.backchannel + 2) more receives, once the
//     back channel is open. At a client the number is the same;
//   - with extensions.continuation, up to as many spare receives as credits, while long
//     replies are due.
//
// A connection that was busy may keep the memory of its last 7 replies, at most 64 KiB,
// until the pool has no memory for another request or the connection rests (idle.go). A
// connection that rests holds receives only.
package transport

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

var (
	// ErrClosed means that the connection had ended in order, or this side had closed it or
	// the host.
	ErrClosed = errors.New("transport: closed")
	// ErrDraining means that the connection accepts no more calls.
	ErrDraining = errors.New("transport: draining")
	// ErrNoMemory means that there was no memory even for the first receives.
	ErrNoMemory = errors.New("transport: out of registered memory")
	// ErrNotAgreed means that the peer did not answer a first message of version 2.
	ErrNotAgreed = errors.New("transport: no answer to version 2")
	// ErrSlow means that RDMA operations or Sends to the peer are slower than the minimum
	// rate, while others wait for the memory that they hold.
	ErrSlow = errors.New("transport: peer too slow")
	// ErrStalled means that RDMA operations or Sends to the peer make no progress at all.
	ErrStalled = errors.New("transport: peer stalls")
)

// Error reports why a connection ended, in one line.
type Error struct {
	Local, Peer netip.AddrPort
	Reason      error
}

func (e *Error) Error() string {
	return fmt.Sprintf("rpcrdma %v: peer %v: %v", e.Local, e.Peer, e.Reason)
}

func (e *Error) Unwrap() error { return e.Reason }

const (
	// tick is the interval at which the progress of connections is checked. An operation
	// without progress for stallTicks ticks ends its connection.
	tick       = 5 * time.Second
	stallTicks = 6

	// sendDepth is the number of send-queue slots to ask for. Longer chains are posted as
	// slots become free.
	sendDepth = 128
	// signalEvery limits the number of ops in a row without a completion. signalBytes
	// limits the memory that these ops hold.
	signalEvery = 8
	signalBytes = 64 << 10
	// detachBytes limits the memory of replies whose calls are over and whose Sends have
	// not completed.
	detachBytes = 4 * signalBytes
	// maxSGE is the number of pieces of one Send to ask for: header with stream, padding,
	// item, roundup padding, rest of the stream. Longer messages are copied into one piece.
	maxSGE = 5
	// pollBatch is how many completions one poll takes.
	pollBatch = 32
)
