package softiwarp

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// inboundRead is a peer's Read Request.
type inboundRead struct {
	rdmap.Read
	msn uint32
}

// readQueue holds at most IRD Read Requests of the peer, in order, until TCP has their
// responses. The reader adds Requests, and the owner of transmission removes them. Most
// peers never read, so the ring is allocated for the first Request.
type readQueue struct {
	ring []inboundRead
	mask uint32
	ird  uint32
	tail uint32        // guarded by queuePair.mu
	head atomic.Uint32 // the slots from head to tail are in use
}

func (r *readQueue) init(ird int) {
	r.mask, r.ird = uint32(driver.Slots(ird)-1), uint32(ird)
}

// put adds a Request to a queue that is not full. The caller holds queuePair.mu.
func (r *readQueue) put(in inboundRead) {
	if r.ring == nil {
		r.ring = make([]inboundRead, r.mask+1)
	}
	*r.at(r.tail) = in
	r.tail++
}

func (r *readQueue) at(pos uint32) *inboundRead { return &r.ring[pos&r.mask] }

func (r *readQueue) empty() bool { return r.tail == r.head.Load() }

func (r *readQueue) full() bool { return r.tail-r.head.Load() >= r.ird }
