package rpctcp

import (
	"errors"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane/fair"
)

// ErrOthersWait is why a connection is cut although its peer has some patience
// left.
var ErrOthersWait = errors.New("too little progress with memory that other connections wait for")

// reliefPause is the least time between two connections that are cut for their
// memory: the first one gives it back meanwhile.
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
	mu   sync.Mutex
	all  map[Borrower]struct{}
	last time.Time // when one was cut
	cuts uint64
}

// NewRelief has no connections.
func NewRelief() *Relief { return &Relief{all: make(map[Borrower]struct{})} }

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

// Relieve cuts one connection if others wait for memory: of those that are
// fair.Grace behind the one that holds most of it. As all have the same share,
// that one is also most over its share.
func (r *Relief) Relieve() {
	if worst := r.worst(time.Now()); worst != nil {
		worst.Cut(ErrOthersWait)
	}
}

func (r *Relief) worst(now time.Time) (worst Borrower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < reliefPause {
		return nil
	}
	most := int64(0)
	for b := range r.all {
		if b.Behind() < fair.Grace {
			continue
		}
		if n := b.Wanted(); n > most {
			worst, most = b, n
		}
	}
	if worst != nil {
		delete(r.all, worst)
		r.last = now
		r.cuts++
	}
	return worst
}
