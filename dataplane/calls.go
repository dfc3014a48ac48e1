package dataplane

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// measured records how long a listener's calls take in the service, and how large calls and
// replies are.
type measured struct {
	failed    atomic.Uint64       // calls answered with an RPC error
	waits     atomic.Uint64       // calls that the method queued has counted
	waited    atomic.Uint64       // ns that these calls waited, including waits in the service before it began
	queue     histogram.Histogram // ns that calls waited before their service started
	time      histogram.Histogram // ns in the service
	callSize  histogram.Histogram // bytes of arguments
	replySize histogram.Histogram // bytes of the RPC reply, header included
}

// handler counts and times the calls of one connection.
type handler struct {
	*measured
	place    *connlimit.Place
	moved    *fair.Mark // conn.moved
	next     oncrpc.Handler
	inFlight atomic.Int64
	spent    atomic.Int64  // ns in the service, or at a connector's target
	lost     atomic.Uint64 // calls whose connection ended before they were served
}

var _ oncrpc.Watcher = (*handler)(nil)

// ServeRPC implements oncrpc.Handler.
func (h *handler) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	h.inFlight.Add(1)
	h.moved.Set()
	reply.Watch(h)
	return h.next.ServeRPC(ctx, call, reply)
}

// Served implements oncrpc.Watcher.
func (h *handler) Served(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply, began, ended time.Time, err error) {
	took := max(ended.Sub(began), 0)
	h.served(call, reply, took, err)
	h.place.Touch(ended)
	h.spent.Add(int64(took))
	if ctx.Err() != nil {
		h.lost.Add(1)
	}
	h.inFlight.Add(-1)
	h.moved.Set()
}

// served counts a call that took a time in the service.
func (m *measured) served(call *oncrpc.Call, reply *oncrpc.Reply, took time.Duration, err error) {
	m.time.Record(uint64(took))
	n := len(call.Args.Stream)
	for i := range call.Args.Items {
		n += call.Args.Items[i].Len()
	}
	m.callSize.Record(uint64(n))
	if err != nil {
		m.failed.Add(1)
		return
	}
	n = len(reply.Stream)
	for i := range reply.Items {
		n += reply.Items[i].Len
	}
	m.replySize.Record(uint64(n))
}

// queued counts how long a call waited before its service started.
func (m *measured) queued(d time.Duration) {
	n := uint64(max(d, 0))
	m.queue.Record(n)
	m.waits.Add(1)
	m.waited.Add(n)
}
