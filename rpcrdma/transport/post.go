package transport

import (
	"runtime"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/verbs"
)

// Posting without the connection's lock. A post may take long: siw sends, and its peer
// receives, within the system call. So code under the lock only adds work requests to a
// line. releaseAndPost then gives the whole line to the queue pair in one call. Meanwhile
// other goroutines add requests to the line and continue. The posting goroutine checks the
// line again when its call returns.

// maxMoves limits how many batches one goroutine posts in a row. After that a worker
// continues, because the goroutine may be a caller whose own reply has arrived.
const maxMoves = 8

// line holds the requests that were posted under the lock and that the queue pair does not
// have yet. Each request has a send-queue slot already, so the line is never longer than
// the send queue. link.mu guards it.
type line struct {
	next   []verbs.SendWR // in order; the ops own their lists
	spare  []verbs.SendWR // storage for the next requests
	moving bool           // a goroutine is posting, and will check the line again
	paused bool           // that goroutine lets others add requests first
	still  sync.Cond      // signaled when no goroutine posts any more
}

// lock is the mutex of a link. Release it with releaseAndPost after anything that may have
// posted requests, and with Unlock after only reading.
type lock struct {
	plain sync.Mutex
	moved *fair.Mark // ResponderConfig.Moved
	l     *link
}

// Lock takes the lock for an event, which may change counters.
func (m *lock) Lock() {
	m.plain.Lock()
	m.moved.Set()
}

// look takes the lock without an event. Counters change only if it carries out an action or
// submits an op. These set the mark.
func (m *lock) look() { m.plain.Lock() }

// Unlock releases the lock and posts nothing. It panics if there are requests in the line,
// which would wait for the next releaseAndPost: that is a bug in this package.
func (m *lock) Unlock() {
	if line := &m.l.sq.line; len(line.next) > 0 && !line.moving {
		panic("transport: released the lock without posting")
	}
	m.plain.Unlock()
}

// releaseAndPost releases the lock and posts the requests in the line. It does I/O. When it
// returns, the queue pair has each request, or another goroutine is about to post it.
func (m *lock) releaseAndPost() {
	if line := &m.l.sq.line; len(line.next) > 0 && !line.moving {
		line.moving = true
		m.l.move()
		return
	}
	m.plain.Unlock()
}

// releaseToWorker is releaseAndPost, but a worker posts.
func (m *lock) releaseToWorker() {
	if line := &m.l.sq.line; len(line.next) > 0 && !line.moving {
		line.moving = true
		m.l.host.workers.run((*mover)(m.l))
	}
	m.plain.Unlock()
}

// releaseAndGather is releaseAndPost for callers. While replies of others have come and
// they have not run yet, it lets them run before it posts: if they call again, all calls go
// out together. The last of them posts. A caller that comes late, because others compute,
// posts at once.
func (m *lock) releaseAndGather(others bool) {
	line := &m.l.sq.line
	switch {
	case len(line.next) == 0:
	case line.paused && !others:
		line.paused = false
		m.l.move()
		return
	case !line.moving && others && time.Since(m.l.now) < together:
		line.moving, line.paused = true, true
		m.plain.Unlock()
		runtime.Gosched()
		m.plain.Lock()
		if line.paused {
			line.paused = false
			m.l.move()
			return
		}
	}
	m.releaseAndPost()
}

// prepareSends initializes the line for a send queue of depth requests.
func (l *link) prepareSends(depth int) {
	l.mu.l, l.sq.depth, l.sq.line.still.L = l, depth, &l.mu.plain
}

// move posts the requests in the line until it is empty. link.mu is held on entry, and
// released on return.
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

// moveOnce posts the requests in the line without holding the lock, and reports whether
// more were added. It also posts after the connection has ended: requests from before the
// end still go out.
func (l *link) moveOnce() (more bool) {
	line := &l.sq.line
	wrs := line.next
	line.next, line.spare = line.spare[:0], nil
	l.mu.plain.Unlock()
	_, err := l.qp.PostSend(wrs)
	clear(wrs)
	l.mu.Lock()
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

// settle waits until the queue pair has everything that was posted. Nothing more is posted
// then, so no goroutine uses the queue pair afterwards.
func (l *link) settle() {
	l.mu.plain.Lock()
	defer l.mu.plain.Unlock()
	for l.sq.line.moving {
		l.sq.line.still.Wait()
	}
}

// mover is a link as a worker's task that continues to post.
type mover link

func (m *mover) run() {
	l := (*link)(m)
	l.mu.plain.Lock()
	l.move()
}
