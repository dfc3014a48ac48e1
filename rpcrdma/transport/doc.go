// Package transport runs the actions of package conn on verbs: one queue pair
// and one completion queue per connection, pooled registered memory, a
// goroutine per busy connection that polls and serves calls that come alone,
// workers that serve the others.
//
// A Host is what the connections of one listener or dialer share: protection
// domain, memory, workers, one ticking goroutine. A link is one connection
// with its queues, whatever its role; Responder and Requester are the roles.
//
// A caller's duties:
//
//   - Close every connection, then the Host;
//   - not to call Close or Drain of a connection from its own handler, which
//     they wait for.
//
// Locks. link.mu guards the protocol core and the line of work requests to the
// queue pair, so that the core's decisions and the device's work have one order.
// releaseAndPost posts that line after it has released the lock (post.go). Nobody
// holds the lock while waiting or while a service runs. Order: Host.mu, link.mu,
// regmem.Pool.mu, the provider's.
//
// Memory of a connection, besides a few KiB of bookkeeping, and up to 28 KiB of
// it while busy once the whole send queue was in line: (8 + 2) receives
// until its first call, then (credits + 2), each of inline.receive_size; per
// call in progress twice the inline send limit, and while they are there its
// read chunks and its reply; with extensions.read_replies up to 16 receives and
// 4.25 MiB of replies that the peer reads (conn.MaxExposures); with
// extensions.backchannel, once the back channel is open, up to
// (credits.backchannel + 2) receives more, as many at a client; with
// extensions.continuation up to as many spare receives as credits, while long
// replies are due. A connection
// that was busy may keep the memory of its last 7 replies, 64 KiB of it at most,
// until somebody finds the pool empty or the connection rests (idle.go); then it
// holds receives only.
package transport

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

var (
	// ErrClosed means that the connection or the host was closed here.
	ErrClosed = errors.New("transport: closed")
	// ErrDraining means that the connection takes no more calls.
	ErrDraining = errors.New("transport: draining")
	// ErrNoMemory means that not even the first receives could be had.
	ErrNoMemory = errors.New("transport: out of registered memory")
	// ErrNotAgreed means that the peer did not answer a first message of
	// version 2.
	ErrNotAgreed = errors.New("transport: no answer to version 2")
	// ErrSlow means that RDMA operations or Sends to the peer make less progress
	// than the floor, while others wait for the memory that they hold.
	ErrSlow = errors.New("transport: peer too slow")
	// ErrStalled means that the peer lets RDMA operations or Sends make no progress.
	ErrStalled = errors.New("transport: peer stalls")
)

// Error is the end of a connection, told in one line.
type Error struct {
	Local, Peer netip.AddrPort
	Reason      error
}

func (e *Error) Error() string {
	return fmt.Sprintf("rpcrdma %v: peer %v: %v", e.Local, e.Peer, e.Reason)
}

func (e *Error) Unwrap() error { return e.Reason }

const (
	// tick is the time between two looks at a connection's progress; an
	// operation that stood still for stallTicks of them ends it.
	tick       = 5 * time.Second
	stallTicks = 6

	// sendDepth is the number of send-queue slots asked for; longer chains
	// are posted as slots come free.
	sendDepth = 128
	// signalEvery bounds the number of ops in a row without a completion, and
	// signalBytes the memory that they hold meanwhile.
	signalEvery = 8
	signalBytes = 64 << 10
	// detachBytes bounds the memory of replies that no call in progress stands
	// for any more, though they have not completed.
	detachBytes = 4 * signalBytes
	// maxSGE is the number of pieces of one Send asked for: header with
	// stream, padding, item, roundup, rest of the stream. Messages with more
	// are copied together.
	maxSGE = 5
	// pollBatch is the number of completions taken at once.
	pollBatch = 32
)
