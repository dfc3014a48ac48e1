package transport

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Posting without the connection's lock. To post may take long: siw sends, and
// the peer's side of it receives, within the system call. So what is posted
// under the lock is put in line, and who releases the lock moves the line to the
// queue pair, all of it at once. Meanwhile others put theirs in line and go; who
// moves looks again when it comes back.

// moves is how often in a row one goroutine does so before a worker takes over:
// it may be a caller whose own reply has come.
const moves = 8

// line is what was posted and the queue pair has not got: requests that have
// their slots, so that it is no longer than the send queue. link.mu guards it.
type line struct {
	next   []verbs.SendWR // in order; their lists are the ops'
	spare  []verbs.SendWR // storage for what comes after them
	moving bool           // somebody has taken what was next, and looks again
	still  sync.Cond      // nobody does any more
}

// lock is a link's mutex. Who releases it moves what is in line.
type lock struct {
	plain sync.Mutex
	l     *link
}

// Lock takes the lock.
func (m *lock) Lock() { m.plain.Lock() }

// Unlock releases the lock. Requests that were put in line under it are with the
// queue pair when it returns, or with somebody who is about to move them.
func (m *lock) Unlock() {
	if line := &m.l.sq.line; len(line.next) > 0 && !line.moving {
		line.moving = true
		m.l.move()
		return
	}
	m.plain.Unlock()
}

// prepareSends makes the link's lock move what a send queue of depth takes.
func (l *link) prepareSends(depth int) {
	l.mu.l, l.sq.depth, l.sq.line.still.L = l, depth, &l.mu.plain
}

// move gives the queue pair what is in line until nothing is. link.mu is held,
// and released in the end.
func (l *link) move() {
	line := &l.sq.line
	for range moves {
		if !l.moveOnce() {
			line.still.Broadcast()
			l.mu.plain.Unlock()
			return
		}
	}
	l.mu.plain.Unlock()
	l.host.workers.run((*mover)(l))
}

// moveOnce gives the queue pair what is in line, without the lock, and says
// whether more has come. The end of the connection is no reason not to: it is
// told after what was posted before.
func (l *link) moveOnce() (more bool) {
	line := &l.sq.line
	wrs := line.next
	line.next, line.spare = line.spare[:0], nil
	l.mu.plain.Unlock()
	_, err := l.qp.PostSend(wrs)
	clear(wrs)
	l.mu.plain.Lock()
	line.spare, line.moving = wrs[:0], false
	if err != nil {
		clear(line.next)
		line.next = line.next[:0]
		l.dieLocked(err)
	}
	l.pump() // what waited for that
	line.moving = len(line.next) > 0
	return line.moving
}

// settle waits until the queue pair has everything that was posted, once nothing
// more is: nobody touches it then.
func (l *link) settle() {
	l.mu.plain.Lock()
	defer l.mu.plain.Unlock()
	for l.sq.line.moving {
		l.sq.line.still.Wait()
	}
}

// mover is a link as a task for a worker that goes on with moving.
type mover link

func (m *mover) run() {
	l := (*link)(m)
	l.mu.plain.Lock()
	l.move()
}
