//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "time"

// A device says nothing of a peer that is gone while there is nothing to send. So
// an empty RDMA Write asks for it: nobody acknowledges that, and the connection
// ends after the device's retries (on iWARP after TCP's).

// probe asks, unless it has asked and the answer is not there. On iWARP a passive
// side is silent until it has heard from its peer (RFC 5044 §7.1.2).
func (q *queuePair) probe() {
	if q.dev.iwarp() && !q.heard() {
		return
	}
	s := &q.sq
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == sendOpen && !s.probing {
		q.postInternalLocked(C.IBV_SEND_SIGNALED)
		s.probing, s.probed = true, s.tail
	}
}

// silence is since when nothing has completed on a queue pair. It belongs to the
// goroutine that sweeps.
type silence struct {
	seen  uint64
	since time.Time
}

// keepAlive probes when nothing has completed for a time. It is called every
// lookTime.
func (q *queuePair) keepAlive(now time.Time, after time.Duration) {
	s := &q.silence
	if seen := q.completions(); seen != s.seen || s.since.IsZero() {
		s.seen, s.since = seen, now
	} else if after > 0 && now.Sub(s.since) >= after {
		s.since = now
		q.probe()
	}
}

// completions is another number once something has completed.
func (q *queuePair) completions() uint64 {
	q.sq.mu.Lock()
	sends := q.sq.head
	q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	return uint64(sends)<<32 | uint64(q.rq.head)
}
