package transport

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Posting without the connection's lock. A post may take long: siw sends, and the
// peer's side of it receives, within the system call. So work requests that are
// posted under the lock are only put in line. releaseAndPost then gives the whole
// line to the queue pair by one call. Other goroutines put their requests in line
// meanwhile and go on; the goroutine that posts looks again when its call returns.

// maxMoves limits how many batches one goroutine posts in a row. After that a worker
// continues, because the goroutine may be a caller whose own reply has arrived.
const maxMoves = 8

// line holds the requests that were posted under the lock and that the queue pair
// does not have yet. They have their slots, so that the line is no longer than the
// send queue. link.mu guards it.
type line struct {
	next   []verbs.SendWR // in order; their lists belong to the ops
	spare  []verbs.SendWR // storage for the requests after them
	moving bool           // a goroutine posts, and looks at the line again
	still  sync.Cond      // signaled when no goroutine posts any more
}

// lock is the mutex of a link. releaseAndPost releases it after anything that may
// have posted requests. Unlock is for those who only read.
type lock struct {
	plain sync.Mutex
	l     *link
}

// Lock takes the lock.
func (m *lock) Lock() { m.plain.Lock() }

// Unlock releases the lock and posts nothing. Requests left in line would wait for
// the next releaseAndPost, so that is a fault of this package.
func (m *lock) Unlock() {
	if line := &m.l.sq.line; len(line.next) > 0 && !line.moving {
		panic("transport: released the lock without posting")
	}
	m.plain.Unlock()
}

// releaseAndPost releases the lock and gives the queue pair what is in line. It does
// I/O. When it returns, each request of the line is with the queue pair, or another
// goroutine is about to post it.
func (m *lock) releaseAndPost() {
	if line := &m.l.sq.line; len(line.next) > 0 && !line.moving {
		line.moving = true
		m.l.move()
		return
	}
	m.plain.Unlock()
}

// prepareSends makes the line ready for a send queue of depth requests.
func (l *link) prepareSends(depth int) {
	l.mu.l, l.sq.depth, l.sq.line.still.L = l, depth, &l.mu.plain
}

// move gives the queue pair what is in line until the line is empty. link.mu is
// held, and move releases it.
func (l *link) move() {
	line := &l.sq.line
	for range maxMoves {
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
// whether more has come. It also posts after the end of the connection: requests
// that were posted before the end still go out.
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
	l.pump() // posts what waited for these requests
	line.moving = len(line.next) > 0
	return line.moving
}

// settle waits until the queue pair has everything that was posted. Nothing more is
// posted, so that no goroutine uses the queue pair after that.
func (l *link) settle() {
	l.mu.plain.Lock()
	defer l.mu.plain.Unlock()
	for l.sq.line.moving {
		l.sq.line.still.Wait()
	}
}

// mover is a link as a task for a worker, which continues to post.
type mover link

func (m *mover) run() {
	l := (*link)(m)
	l.mu.plain.Lock()
	l.move()
}
