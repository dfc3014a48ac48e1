package softiwarp

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// piece is one scatter/gather entry. It has been checked and uses its region.
type piece struct {
	b  []byte
	mr *driver.SoftMR
}

// recvEntry is a posted Receive.
type recvEntry struct {
	id       uint64
	n        int // pieces
	capacity int // bytes of all pieces
}

// recvQueue is the bounded ring of posted Receives. Only the reader removes entries.
// Entries in the ring don't change. The ring grows with use up to its depth, because most
// connections never need the whole depth that their consumers ask for.
type recvQueue struct {
	mu      sync.Mutex
	ring    []recvEntry
	store   []piece // sge of them for each entry
	head    int
	count   int
	depth   int  // MaxRecvWR
	sge     int  // MaxRecvSGE
	flushed bool // the queue pair has failed: Receives complete when they are posted
}

// A ring grows by a quarter, and by at least ringStep entries: most consumers post ten
// Receives, then a few more at a time.
const (
	ringStart = 10
	ringStep  = 8
)

func (r *recvQueue) init(depth, sge int) { r.depth, r.sge = depth, sge }

// grow enlarges the ring. An entry that the reader uses stays unchanged in the old ring.
func (r *recvQueue) grow() {
	more := ringStart
	if n := len(r.ring); n > 0 {
		more = max(n/4, ringStep)
	}
	ring := make([]recvEntry, min(len(r.ring)+more, r.depth))
	n := copy(ring, r.ring[r.head:])
	copy(ring[n:], r.ring[:r.head])
	store := make([]piece, len(ring)*r.sge)
	n = copy(store, r.store[r.head*r.sge:])
	copy(store[n:], r.store[:r.head*r.sge])
	r.ring, r.store, r.head = ring, store, 0
}

// at returns the pieces of the entry in a slot of the ring.
func (r *recvQueue) at(slot int) []piece {
	return r.store[slot*r.sge : slot*r.sge+r.ring[slot].n : (slot+1)*r.sge]
}

// next returns the slot for the next entry, or -1 when the queue is full.
func (r *recvQueue) next() int {
	if r.count == r.depth {
		return -1
	}
	if r.count == len(r.ring) {
		r.grow()
	}
	i := r.head + r.count
	if i >= len(r.ring) {
		i -= len(r.ring)
	}
	return i
}

// front returns the oldest entry and its pieces, or nil when there is none.
func (r *recvQueue) front() (*recvEntry, []piece) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == 0 {
		return nil, nil
	}
	return &r.ring[r.head], r.at(r.head)
}

// pop removes the oldest entry and ends the use of its regions.
func (r *recvQueue) pop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.popLocked()
}

func (r *recvQueue) popLocked() {
	pieces := r.at(r.head)
	releasePieces(&pieces)
	r.ring[r.head].n = 0
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
	slot := q.rq.next()
	if slot < 0 {
		return verbs.ErrQueueFull
	}
	if len(wr.SGL) > q.Attr.MaxRecvSGE {
		return driver.ErrSGECount
	}
	pieces := q.rq.at(slot)
	capacity, err := q.takePieces(&pieces, wr.SGL, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	q.rq.ring[slot] = recvEntry{id: wr.ID, n: len(pieces), capacity: capacity}
	q.rq.count++
	if q.rq.flushed {
		q.rq.popLocked()
		q.recvCQ.Push(&verbs.WC{ID: wr.ID, Status: verbs.WCWRFlushErr, QPNum: q.Num()})
	}
	return nil
}
