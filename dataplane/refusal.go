package dataplane

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Refusal is why a connection didn't come up.
type Refusal uint8

// The refusals.
const (
	RefusedDenied      Refusal = iota // allow and deny
	RefusedConnections                // limit of connections
	RefusedPerPeer                    // limit of connections of one address
	RefusedHandshake                  // failed, or took too long
	RefusedStopping                   // the listener or the data plane ends
	RefusedService                    // the service can't serve it, such as for want of its upstream
	RefusedMemory                     // there is no registered memory for it
	refusals
)

var refusalNames = [refusals]string{"denied", "connections", "connections_per_peer", "handshake", "stopping", "service", "memory"}

// String is the refusal's word, as in metrics.
func (r Refusal) String() string { return refusalNames[r] }

// RefusedError says why a connection didn't come up.
type RefusedError struct {
	Refusal Refusal
	Text    string
}

func (e *RefusedError) Error() string { return e.Text }

// Refusals counts refused connections by Refusal.
type Refusals [refusals]uint64

// Sum is the number of all.
func (r *Refusals) Sum() (n uint64) {
	for _, v := range r {
		n += v
	}
	return n
}

// Of a refusal's lines, refusalBurst are logged at once, then one per
// refusalEvery: a flood of peers is no flood of lines.
const (
	refusalBurst = 5
	refusalEvery = 10 * time.Second
)

// refusalLog counts all refused connections of a listener and logs some.
type refusalLog struct {
	counts [refusals]atomic.Uint64

	mu      sync.Mutex
	lines   [refusals]*rate.Limiter
	skipped [refusals]uint64 // since the last line
}

func newRefusalLog() *refusalLog {
	r := new(refusalLog)
	for i := range r.lines {
		r.lines[i] = rate.NewLimiter(rate.Every(refusalEvery), refusalBurst)
	}
	return r
}

func (r *refusalLog) snapshot() (out Refusals) {
	for i := range out {
		out[i] = r.counts[i].Load()
	}
	return out
}

// note counts a refused connection, and logs it unless there were many.
func (r *refusalLog) note(log *slog.Logger, listener string, peer netip.AddrPort, why Refusal, reason string) {
	r.counts[why].Add(1)
	if why == RefusedStopping {
		return // our doing, and told already
	}
	r.mu.Lock()
	ok := r.lines[why].Allow()
	skipped := r.skipped[why]
	if ok {
		r.skipped[why] = 0
	} else {
		r.skipped[why]++
	}
	r.mu.Unlock()
	if !ok {
		return
	}
	args := []any{"listener", listener, "peer", peer.String(), "reason", reason}
	if skipped > 0 {
		args = append(args, "not_logged", skipped)
	}
	log.Warn("connection refused", args...)
}
