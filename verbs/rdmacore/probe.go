//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "time"

// While nothing is sent, a device does not notice that its peer is gone. So the provider
// sends an empty RDMA Write. If the peer is gone, nobody acknowledges it, and the
// connection ends after the device's retries (on iWARP, TCP's).

// probe sends the Write, unless the last one is unanswered. On iWARP a passive side sends
// nothing until its peer has sent (RFC 5044 §7.1.2).
func (q *queuePair) probe() {
	if q.dev.iwarp() && !q.heard() {
		return
	}
	q.sq.posting.Lock()
	defer q.sq.posting.Unlock()
	if q.sq.phase == sendOpen {
		q.postInternal(C.IBV_SEND_SIGNALED, (*sendQueue).beginProbe)
	}
}

// beginProbe records a probe in the next entry, unless the last is unanswered.
func (s *sendQueue) beginProbe() bool {
	if s.probing {
		return false
	}
	s.probing, s.probed = true, s.tail+1
	return true
}

// silence records since when nothing has completed on a queue pair. It belongs to the
// goroutine that sweeps.
type silence struct {
	seen  uint64
	since time.Time
}

// keepAlive probes when nothing has completed for the time after. It is called every
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

// completions returns a number that changes whenever something completes.
func (q *queuePair) completions() uint64 {
	q.sq.mu.Lock()
	sends := q.sq.head
	q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	return uint64(sends)<<32 | uint64(q.rq.head)
}
