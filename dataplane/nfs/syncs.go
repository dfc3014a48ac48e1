package nfs

import (
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// syncs bring what was written to one file or directory to stable storage. One at a time runs,
// for all calls that wait then: many at the same time would keep threads, and through them
// processors, from other clients. And of several with one open file, the kernel tells an error
// of the disk only to one. So an error counts for all stable WRITEs that have begun, and have
// not been answered, when it comes.
type syncs struct {
	mu          sync.Mutex
	ended       sync.Cond // L is &mu
	begun, done uint64    // how many began and ended; no more than one runs
	full        uint64    // the last that must bring all attributes, too
	failed      uint64    // the last that failed
	err         error     // of that
	waiting     int       // calls in sync
}

// now returns how many have ended, for since.
func (s *syncs) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// alone begins one for a call that both writes and syncs, if no other call is in sync. The call
// must end it.
func (s *syncs) alone(p *pace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting > 0 || !p.tryEnter() {
		return false
	}
	s.waiting++
	s.begun++
	return true
}

// end ends what alone began, after an error has renewed the write verifier.
func (s *syncs) end(p *pace, err error) {
	<-p.fast
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
	s.leaveLocked()
}

func (s *syncs) endLocked(err error) {
	s.done++
	if err != nil {
		s.failed, s.err = s.done, err
	}
}

// leaveLocked lets the next call go on: one after the other, so that they leave processors to
// other clients.
func (s *syncs) leaveLocked() {
	s.waiting--
	s.ended.Signal()
}

// since returns the error of those that ended after now.
func (s *syncs) since(now uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed > now {
		return s.err
	}
	return nil
}

// sync waits until what was written to o before is on stable storage, with all attributes if
// full. If no other call brings it there, this one does, with fd. call is nil if no client waits.
func (o *object) sync(call *oncrpc.Call, fd int, full bool) error {
	s := &o.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	want := s.begun + 1 // one that runs may have missed what was written
	if full {
		s.full = want
	}
	if s.waiting++; s.waiting > 1 {
		s.ended.Wait()
	}
	if s.done < want { // none runs, and others that came since wait for this call
		s.mu.Unlock()
		place := o.server.export.syncs.enter()
		s.mu.Lock()
		s.begun++
		all := s.full == s.begun
		s.mu.Unlock()
		err := o.bring(call, fd, all)
		<-place
		s.mu.Lock()
		s.endLocked(err)
	}
	s.leaveLocked()
	if s.failed >= want {
		return s.err
	}
	return nil
}

// pace limits the syncs of an export that run at once, each of which has a thread. Its channels
// have an element for each.
type pace struct{ fast, slow chan struct{} }

const (
	// fastSyncs may run on a fast disk: there, more would only keep the processors from other
	// clients.
	fastSyncs = 4
	// syncPatience is how long a sync waits to be one of these. On a slow disk others may run as
	// well, which the file system brings to it together.
	syncPatience = 10 * time.Millisecond
	// slowSyncs is how many others may run, also while the file system hangs.
	slowSyncs = mostInside - fastSyncs
)

func newPace() pace {
	return pace{make(chan struct{}, fastSyncs), make(chan struct{}, slowSyncs)}
}

// enter waits until a sync may run. The caller must receive from place when it has ended.
func (p *pace) enter() (place <-chan struct{}) {
	if p.tryEnter() {
		return p.fast
	}
	patience := time.NewTimer(syncPatience)
	defer patience.Stop()
	select {
	case p.fast <- struct{}{}:
		return p.fast
	case <-patience.C:
	}
	select {
	case p.fast <- struct{}{}:
		return p.fast
	case p.slow <- struct{}{}:
		return p.slow
	}
}

// tryEnter is enter without patience. The place is p.fast.
func (p *pace) tryEnter() bool {
	select {
	case p.fast <- struct{}{}:
		return true
	default:
		return false
	}
}
