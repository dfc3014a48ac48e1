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

// request arranges that q.readable is called once when q's socket can be read. It returns
// false if the system refuses that.
func (n *inputs) request(q *queuePair, fd int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notices == nil {
		made, err := notices.New(n.come)
		if err != nil {
			return false
		}
		n.notices, n.waiting = made, make(map[uint64]*queuePair)
	}
	n.waiting[uint64(q.Num())] = q
	return n.notices.Request(fd, uint64(q.Num())) == nil
}

// withdraw takes the request of a queue pair back.
func (n *inputs) withdraw(fd int) { n.notices.Withdraw(fd) }

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
