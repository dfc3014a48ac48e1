package driver

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// On iWARP an active side sends an empty RDMA Write after its first message while the peer
// is silent. The reason is a passive side that starts to watch its socket only after it has
// accepted: Linux's siw_accept sends the MPA reply before siw_qp_socket_assoc. Such a peer
// notices input that arrived in between only when more arrives, and with one credit nothing
// more arrives. The Write places nothing. RFC 6581 uses the same message as a
// ready-to-receive indication.
const (
	firstNudge = 50 * time.Millisecond // after the connection is established
	// MostNudges is the largest number of nudges. The intervals double, and the last nudge
	// goes out 1.55 s after the connection is established.
	MostNudges = 5
)

// NudgesLocked calls nudge, with the lock held, while the queue pair is connected and nudge
// returns true. The provider stops the timer when the queue pair fails.
func (q *QP) NudgesLocked(nudge func() (again bool)) (timer *time.Timer) {
	interval, left := firstNudge, MostNudges
	timer = time.AfterFunc(interval, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if left--; q.state == verbs.QPRTS && nudge() && left > 0 {
			interval *= 2
			timer.Reset(interval)
		}
	})
	return timer
}
