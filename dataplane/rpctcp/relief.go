package rpctcp

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// ErrOthersWait is why a connection is ended before the peer's patience is over.
var ErrOthersWait = errors.New("too little progress with memory that other connections wait for")

// reliefPause is the least time between two rounds of ending connections, so that their
// memory can come back.
const reliefPause = 10 * time.Millisecond

// Borrower is a connection that may hold memory that others wait for. Behind and
// Wanted are called with the Relief locked: they must not block, nor call it.
type Borrower interface {
	// Behind returns how far the peer is behind with sending or reading.
	Behind() time.Duration
	// Wanted returns how many bytes the connection holds that others wait for.
	Wanted() int64
	// Cut starts to end the connection and does not wait. The connection may have
	// ended already.
	Cut(error)
}

// Relief ends connections whose peers make too little progress while others wait for their
// memory. It has no timer: an Intake or a Sender calls Relieve while its peer is behind.
// All methods may be called from any goroutine.
type Relief struct {
	waiting func() int // requests for memory

	mu   sync.Mutex
	all  map[Borrower]struct{}
	last time.Time // when connections were cut
	cuts uint64
}

// NewRelief makes a Relief without connections. waiting returns how many requests
// for memory wait.
func NewRelief(waiting func() int) *Relief {
	return &Relief{waiting: waiting, all: make(map[Borrower]struct{})}
}

// Join adds a connection.
func (r *Relief) Join(b Borrower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[b] = struct{}{}
}

// Leave removes a connection.
func (r *Relief) Leave(b Borrower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, b)
}

// Cuts returns how many connections Relief ended.
func (r *Relief) Cuts() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cuts
}

// Relieve ends connections, at most one for each request that waits for memory. Among those
// that are fair.Grace behind, it chooses the ones that hold most. All have the same share,
// so these are also furthest above it.
func (r *Relief) Relieve() {
	if n := r.waiting(); n > 0 {
		for _, b := range r.worst(n, time.Now()) {
			b.Cut(ErrOthersWait)
		}
	}
}

// worst removes and returns the n worst connections.
func (r *Relief) worst(n int, now time.Time) []Borrower {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < reliefPause {
		return nil
	}
	wanted := make(map[Borrower]int64)
	for b := range r.all {
		if b.Behind() < fair.Grace {
			continue
		}
		if n := b.Wanted(); n > 0 {
			wanted[b] = n
		}
	}
	worst := slices.SortedFunc(maps.Keys(wanted), func(a, b Borrower) int { return cmp.Compare(wanted[b], wanted[a]) })
	worst = worst[:min(n, len(worst))]
	for _, b := range worst {
		delete(r.all, b)
		r.last = now
		r.cuts++
	}
	return worst
}
