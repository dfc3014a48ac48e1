package softiwarp

import (
	"sync"

	"github.com/rdmad/rdmad/verbs/notices"
)

// inputs starts the reading of queue pairs when their sockets have input. So an idle
// connection needs no goroutine.
type inputs struct {
	mu      sync.Mutex
	notices *notices.Notices // nil while there are no queue pairs
	waiting map[uint64]*queuePair
}

// add returns the notices that call q.readable for q's number as their key, until forget. It
// returns nil if the system refuses notices.
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

// come is called when a socket has input. key is the number of its queue pair.
func (n *inputs) come(key uint64) {
	n.mu.Lock()
	q := n.waiting[key]
	n.mu.Unlock()
	if q != nil {
		q.readable()
	}
}
