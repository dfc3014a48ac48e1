package dataplane

import (
	"context"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Link is an RPC-over-RDMA connection as operators see, tune and end it:
// one that a peer made, an *rpcrdma.Conn, or one that a connector made. Its
// methods may be called from any goroutine, those that tell of it also when it
// has ended.
type Link interface {
	// Info is what is in force, Stats and Sizes what was done so far.
	Info() rpcrdma.Info
	Stats() rpcrdma.Stats
	Sizes() rpcrdma.Sizes
	// SetSettings changes the settings at once.
	SetSettings(*rpcrdma.Settings)
	// Drain has the calls in flight answered and disconnects; when ctx ends
	// first, the connection is closed at once and ctx.Err() returned.
	Drain(context.Context) error
	// Close ends the connection at once and waits until everything is freed.
	Close() error
	// Done is closed when the connection has ended, Err is why, nil after an
	// orderly end.
	Done() <-chan struct{}
	Err() error
}

// ConnectorLink is the Link of a connection that a connector made, which has
// registered memory of its own.
type ConnectorLink interface {
	Link
	// Memory are its numbers.
	Memory() rpcrdma.MemoryStats
}

var _ Link = (*rpcrdma.Conn)(nil)
