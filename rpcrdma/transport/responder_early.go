package transport

import (
	"context"
	"sync/atomic"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Calls that are delivered while RDMA Reads still fetch their items, to services that pass
// items on. Such a call is served by a worker: a leader would have to wait for completions
// that only it polls. It is answered after its last Read, as the memory is in use until
// then.

// earlyStep is how much is read before the service learns of it, in bytes. Calls with less
// than twice that are delivered when all of it is there.
const earlyStep = 256 << 10

// mayDeliverEarly reports whether a call's items may still be arriving when its service
// starts. Devices whose sinks the peer may write to are left out, because the data is used
// before the sink is closed.
func (r *Responder) mayDeliverEarly(c *call) bool {
	return r.ahead && !r.host.attr.ReadSinkRemoteWrite && !c.call.Reads.Long() && c.fetch.layOut() >= 2*earlyStep
}

// arrival counts the bytes of a call's items that were read. It implements oncrpc.Arrival.
type arrival struct {
	size int
	n    atomic.Int64
	more chan struct{} // holds a token when n has grown
}

var _ oncrpc.Arrival = (*arrival)(nil)

// start begins to count the bytes of a list.
func (a *arrival) start(l *chunk.ReadList) {
	a.size = 0
	for i := range l.Chunks {
		a.size += l.Chunks[i].Length
	}
	a.n.Store(0)
	if a.more == nil {
		a.more = make(chan struct{}, 1)
	}
}

func (a *arrival) add(n int) {
	a.n.Add(int64(n))
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// Wait implements oncrpc.Arrival.
func (a *arrival) Wait(ctx context.Context, n int) (int, error) {
	for {
		if have := int(a.n.Load()); have > n || have == a.size {
			return have, nil
		}
		select {
		case <-a.more:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// whole waits until everything has arrived or the connection has ended.
func (a *arrival) whole(ctx context.Context) { _, _ = a.Wait(ctx, a.size-1) }
