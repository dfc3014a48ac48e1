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

// ErrOthersWait is why a connection is cut although its peer has some patience
// left.
var ErrOthersWait = errors.New("too little progress with memory that other connections wait for")

// reliefPause is the least time between two times that connections are cut for
// their memory: the first ones give it back meanwhile.
const reliefPause = 10 * time.Millisecond

// Borrower is a connection that may hold memory for which others wait. Behind and
// Wanted are called with the Relief locked: they must not block, nor call it.
type Borrower interface {
	// Behind is how far the peer is behind with what it sends or takes.
	Behind() time.Duration
	// Wanted is how many bytes the connection holds of memory for which others
	// wait.
	Wanted() int64
	// Cut ends the connection, without waiting for its end. It may have ended.
	Cut(error)
}

// Relief brings memory back from connections whose peers make too little
// progress while others wait for it. The peers' own slowness drives it: an Intake
// and a Sender call Relieve while their peer is behind. All methods may be called
// from any goroutine.
type Relief struct {
	waiting func() int // requests for memory

	mu   sync.Mutex
	all  map[Borrower]struct{}
	last time.Time // when some were cut
	cuts uint64
}

// NewRelief has no connections. waiting says how many requests for memory wait.
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

// Cuts is how many connections were cut.
func (r *Relief) Cuts() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cuts
}

// Relieve cuts connections if requests for memory wait, as many as there are: of
// those that are fair.Grace behind the ones that hold most of it. As all have the
// same share, these are also most over their share.
func (r *Relief) Relieve() {
	if n := r.waiting(); n > 0 {
		for _, b := range r.worst(n, time.Now()) {
			b.Cut(ErrOthersWait)
		}
	}
}

// worst takes the n worst connections out.
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
