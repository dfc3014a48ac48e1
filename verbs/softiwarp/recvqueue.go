package softiwarp

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// piece is one scatter/gather entry. It has been checked and uses its region.
type piece struct {
	b  []byte
	mr *memRegion
}

// recvEntry is a posted Receive.
type recvEntry struct {
	id       uint64
	pieces   []piece
	capacity int // bytes of all pieces
}

// recvQueue is the bounded ring of posted Receives. Only the reader removes entries.
// Entries in the ring don't change. The ring grows with use up to its depth, because most
// connections never need the whole depth that their consumers ask for.
type recvQueue struct {
	mu      sync.Mutex
	ring    []recvEntry
	head    int
	count   int
	depth   int  // MaxRecvWR
	sge     int  // MaxRecvSGE
	flushed bool // the queue pair has failed: Receives complete when they are posted
}

// ringStart is the number of entries with which a growing ring starts.
const ringStart = 16

func (r *recvQueue) init(depth, sge int) { r.depth, r.sge = depth, sge }

// grow doubles the ring. An entry that the reader uses stays unchanged in the old ring.
func (r *recvQueue) grow() {
	ring := make([]recvEntry, min(max(2*len(r.ring), ringStart), r.depth))
	n := copy(ring, r.ring[r.head:])
	n += copy(ring[n:], r.ring[:r.head])
	store := make([]piece, (len(ring)-n)*r.sge)
	for i := range ring[n:] {
		ring[n+i].pieces = store[i*r.sge : i*r.sge : (i+1)*r.sge]
	}
	r.ring, r.head = ring, 0
}

// next returns the slot for the next entry, or nil when the queue is full.
func (r *recvQueue) next() *recvEntry {
	if r.count == r.depth {
		return nil
	}
	if r.count == len(r.ring) {
		r.grow()
	}
	i := r.head + r.count
	if i >= len(r.ring) {
		i -= len(r.ring)
	}
	return &r.ring[i]
}

// front returns the oldest entry, or nil when there is none.
func (r *recvQueue) front() *recvEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == 0 {
		return nil
	}
	return &r.ring[r.head]
}

// pop removes the oldest entry and ends the use of its regions.
func (r *recvQueue) pop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.popLocked()
}

func (r *recvQueue) popLocked() {
	releasePieces(&r.ring[r.head].pieces)
	if r.head++; r.head == len(r.ring) {
		r.head = 0
	}
	r.count--
}

// releasePieces ends the use of the pieces' regions and empties the slice.
func releasePieces(pieces *[]piece) {
	for i := range *pieces {
		(*pieces)[i].mr.Unuse()
		(*pieces)[i] = piece{}
	}
	*pieces = (*pieces)[:0]
}

// PostRecv implements verbs.QP.
func (q *queuePair) PostRecv(wrs []verbs.RecvWR) (int, error) {
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wrs {
		if err := q.postRecvLocked(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

func (q *queuePair) postRecvLocked(wr *verbs.RecvWR) error {
	if q.closed.Load() {
		return verbs.ErrClosed
	}
	e := q.rq.next()
	if e == nil {
		return verbs.ErrQueueFull
	}
	if len(wr.SGL) > q.Attr.MaxRecvSGE {
		return driver.ErrSGECount
	}
	capacity, err := q.takePieces(&e.pieces, wr.SGL, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	e.id, e.capacity = wr.ID, capacity
	q.rq.count++
	if q.rq.flushed {
		q.rq.popLocked()
		q.recvCQ.Push(&verbs.WC{ID: wr.ID, Status: verbs.WCWRFlushErr, QPNum: q.Num()})
	}
	return nil
}
