package softiwarp

import (
	"sync"

	"github.com/rdmad/rdmad/verbs/notices"
)

// inputs finds input of queue pairs that nobody reads. So an idle connection has no
// goroutine.
type inputs struct {
	mu      sync.Mutex
	notices *notices.Notices // nil while there are no queue pairs
	waiting map[uint64]*queuePair
}

// add returns the notices for q, or nil if the system refuses them. q.readable is called for
// those that have q's number as their key, until forget.
func (n *inputs) add(q *queuePair) *notices.Notices {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notices == nil {
		made, err := notices.New(n.come)
		if err != nil {
			return nil
		}
		n.notices, n.waiting = made, make(map[uint64]*queuePair)
	}
	n.waiting[uint64(q.Num())] = q
	return n.notices
}

// forget drops a queue pair. Closing its socket ends the watching.
func (n *inputs) forget(q *queuePair) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if delete(n.waiting, uint64(q.Num())); len(n.waiting) == 0 && n.notices != nil {
		go n.notices.Close() // it waits for come
		n.notices = nil
	}
}

// come is called for a socket with input.
func (n *inputs) come(key uint64) {
	n.mu.Lock()
	q := n.waiting[key]
	n.mu.Unlock()
	if q != nil {
		q.readable()
	}
}
