package fair

import (
	"math"
	"sync/atomic"
)

// peer is the sum of what the holders of one peer have. It prevents a peer from getting
// more shares by making more connections.
type peer struct {
	key     any
	held    atomic.Int64
	holders int // under the pool's lock
}

// joined adds a holder to those of a peer; p.mu is held.
func (p *Pool) joined(key any) *peer {
	o := p.peers[key]
	if o == nil {
		o = &peer{key: key}
		p.peers[key] = o
	}
	o.holders++
	return o
}

// left undoes joined. p.mu is held.
func (p *Pool) left(o *peer) {
	if o.holders--; o.holders == 0 {
		delete(p.peers, o.key)
	}
}

// leaves reports whether the holder's peer may take n of the free bytes. It may while there
// are shares for all holders, when it has nothing, or when it leaves free as much as it
// has. While there is no other peer, it leaves enough for one to join.
//
// This is the dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998): if k
// peers take all they can get at the same time, each has one part of k+1, and one part is
// free.
func (s *Share) leaves(n, free int64) bool {
	if !s.p.crowded.Load() {
		return true
	}
	held := s.peer.held.Load()
	return held == 0 || held+n <= free-n || free-n >= s.p.lone.Load()
}

// setLone sets what a peer must leave free while it is the only one. p.mu is held.
func (p *Pool) setLone() {
	least := int64(math.MaxInt64)
	if len(p.peers) < 2 {
		least = p.limit / reservePart / othersPart
	}
	p.lone.Store(least)
}

// free returns the unused part of the limit. p.mu is held.
func (p *Pool) free() int64 { return p.limit - p.within.Load() - p.borrowed }
