package dataplane

import (
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

const (
	// forgetReceiver is how long a peer must have had no connection until rdmad assumes
	// that the peer makes new receives. A client with work or a lease connects again
	// within minutes. An NFSv3 mount that is idle for longer closes its connection, but
	// may keep its old receives. Then the first Send that is too long ends the connection,
	// and refuse records the peer again.
	forgetReceiver = time.Hour
	// maxReceivers bounds the remembered peers without a connection.
	maxReceivers = 4096
)

// receiver identifies a peer by its address. Programs on one machine that announce different
// sizes are different receivers.
type receiver struct {
	addr  netip.Addr
	takes uint32 // bytes that the peer announced at connect
}

// receivers remembers the smallest size of Sends that was announced to each peer of a
// listener. Some clients make their receives as large as the Sends that the server
// announces, and keep them for the next connection, where the server may announce more:
// Linux 6.12 does (rpcrdma_rep_create, rpcrdma_reps_unmap). So rdmad announces to a peer no
// larger size than that of the smallest receives that the peer may still have.
type receivers struct {
	mu    sync.Mutex
	known map[receiver]*receives
}

// receives describes the receives that a peer may have.
type receives struct {
	size    uint32    // bytes of the smallest receive
	up      int       // connections being made or up
	left    time.Time // when the last of them ended
	refused bool      // the peer had no receive for a larger Send
}

// stale reports whether the peer will have new receives on its next connection.
func (s *receives) stale(now time.Time) bool {
	return s.up == 0 && now.Sub(s.left) >= forgetReceiver
}

// tell begins a connection and returns the size to announce to its peer, at most the size in
// the settings. leave ends the connection.
func (r *receivers) tell(who receiver, want uint32, now time.Time) (size uint32) {
	if who.takes <= rpcrdma.InlineMin {
		return want // no receives are smaller than this
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

// addLocked starts to remember a peer.
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

// makeRoomLocked forgets the stale peers, or else the peer that left first. Peers with
// connections stay, because other limits bound them.
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

// refuse records that a connected peer had no receive for a Send of the announced size. It
// reports whether that is new.
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

// remembered returns the number of remembered peers.
func (r *receivers) remembered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known)
}

// refused reports whether refuse recorded the peer.
func (r *receivers) refused(who receiver) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[who]
	return s != nil && s.refused
}
