package dataplane

import (
	"context"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Link is an RPC-over-RDMA connection as operators see, tune and end it. It is an
// *rpcrdma.Conn, which a peer made, or a connection that a connector made. Its methods are
// safe for concurrent use. Those that describe it may be called after its end, too.
type Link interface {
	// Info returns the current state. Stats and Sizes return counters since the start.
	Info() rpcrdma.Info
	Stats() rpcrdma.Stats
	Sizes() rpcrdma.Sizes
	// SetSettings changes the settings at once.
	SetSettings(*rpcrdma.Settings)
	// Drain finishes the calls in flight and disconnects. When ctx ends first, it closes
	// the connection at once and returns ctx.Err().
	Drain(context.Context) error
	// Close ends the connection at once and waits until everything is freed.
	Close() error
	// Done is closed when the connection has ended. Err then returns why, or nil after an
	// orderly end.
	Done() <-chan struct{}
	Err() error
}

// ConnectorLink is the Link of a connection that a connector made. It has its own registered
// memory.
type ConnectorLink interface {
	Link
	// Memory returns the statistics of that memory.
	Memory() rpcrdma.MemoryStats
}

var _ Link = (*rpcrdma.Conn)(nil)
