package dataplane

import (
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

const (
	// forgetReceiver is how long a peer must have had no connection before its
	// receives count as new. A client with work or with a lease connects again
	// within minutes. A mount of NFSv3 that is idle for longer closes its connection
	// and may still have old receives: then the first Send that does not fit ends the
	// connection, and refused makes the peer known again.
	forgetReceiver = time.Hour
	// maxReceivers bounds the peers without a connection that are remembered.
	maxReceivers = 4096
)

// receiver names a peer by its address. Programs on one machine that take Sends
// of different sizes are peers of their own.
type receiver struct {
	addr  netip.Addr
	takes uint32 // bytes, as it says at connect
}

// receivers remembers the smallest size of Sends that was announced to each peer of a
// listener. Some clients make their receives as large as the server says that it sends,
// and keep them for the next connection, where the server may say more: Linux 6.12 does
// (rpcrdma_rep_create, rpcrdma_reps_unmap). So rdmad announces to no peer a larger size
// than that of the smallest receives that the peer may still have.
type receivers struct {
	mu    sync.Mutex
	known map[receiver]*receives
}

// receives are those that a peer may have.
type receives struct {
	size    uint32    // bytes of the smallest
	up      int       // connections, being made or up
	left    time.Time // when the last of them ended
	refused bool      // the peer had none for a larger Send
}

// stale says that the peer has made its receives anew when it comes again.
func (s *receives) stale(now time.Time) bool {
	return s.up == 0 && now.Sub(s.left) >= forgetReceiver
}

// tell begins a connection and returns the size to announce to its peer, at most
// the size in the settings. leave ends the connection.
func (r *receivers) tell(who receiver, want uint32, now time.Time) (size uint32) {
	if who.takes <= rpcrdma.InlineMin {
		return want // no receives are smaller
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[who]
	if s == nil || s.stale(now) {
		s = r.addLocked(who, now)
	}
	s.up++
	s.size = min(s.size, want)
	if s.size == who.takes {
		return want
	}
	return s.size
}

// addLocked begins to remember a peer.
func (r *receivers) addLocked(who receiver, now time.Time) *receives {
	if r.known == nil {
		r.known = make(map[receiver]*receives)
	}
	if len(r.known) >= maxReceivers {
		r.makeRoomLocked(now)
	}
	s := &receives{size: who.takes}
	r.known[who] = s
	return s
}

// makeRoomLocked forgets the peers that are stale, or else the one that left
// first. Those with connections stay: other limits bound them.
func (r *receivers) makeRoomLocked(now time.Time) {
	var first receiver
	var left time.Time
	for who, s := range r.known {
		switch {
		case s.stale(now):
			delete(r.known, who)
		case s.up == 0 && (left.IsZero() || s.left.Before(left)):
			first, left = who, s.left
		}
	}
	if len(r.known) >= maxReceivers {
		delete(r.known, first)
	}
}

// leave ends a connection that tell began.
func (r *receivers) leave(who receiver, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.known[who]; s != nil {
		s.up--
		s.left = now
	}
}

// refuse notes that a connected peer had no receive for a Send of the announced
// size. It says whether that was not known before.
func (r *receivers) refuse(who receiver) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[who]
	if s == nil || s.refused && s.size == rpcrdma.InlineMin {
		return false
	}
	s.size, s.refused = rpcrdma.InlineMin, true
	return true
}

// remembered is the number of peers that are remembered.
func (r *receivers) remembered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

// refused says whether refuse noted the peer.
func (r *receivers) refused(who receiver) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[who]
	return s != nil && s.refused
}
