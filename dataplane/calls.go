package dataplane

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/histogram"
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
	next     oncrpc.Handler
	inFlight atomic.Int64
	spent    atomic.Int64  // ns in the service, or at a connector's target
	lost     atomic.Uint64 // calls whose connection ended before they were served
}

// ServeRPC implements oncrpc.Handler.
func (h *handler) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	h.inFlight.Add(1)
	defer h.inFlight.Add(-1)
	ended, took, err := h.serve(ctx, h.next, call, reply)
	h.place.Touch(ended)
	h.spent.Add(int64(took))
	if ctx.Err() != nil {
		h.lost.Add(1)
	}
	return err
}

// serve lets next answer a call. It returns the time when that ended, and how long it took.
func (m *measured) serve(ctx context.Context, next oncrpc.Handler, call *oncrpc.Call, reply *oncrpc.Reply) (ended time.Time, took time.Duration, err error) {
	start := time.Now()
	err = next.ServeRPC(ctx, call, reply)
	ended = time.Now()
	took = max(ended.Sub(start), 0)
	m.time.Record(uint64(took))
	n := len(call.Args.Stream)
	for i := range call.Args.Items {
		n += call.Args.Items[i].Len()
	}
	m.callSize.Record(uint64(n))
	if err != nil {
		m.failed.Add(1)
		return ended, took, err
	}
	n = len(reply.Stream)
	for i := range reply.Items {
		n += reply.Items[i].Len
	}
	m.replySize.Record(uint64(n))
	return ended, took, nil
}

// queued counts how long a call waited before its service started.
func (m *measured) queued(d time.Duration) {
	n := uint64(max(d, 0))
	m.queue.Record(n)
	m.waits.Add(1)
	m.waited.Add(n)
}
