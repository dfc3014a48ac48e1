package fair

import (
	"math"
	"sync/atomic"
)

// peer is what the holders of one peer have together. Otherwise a peer would have
// as many shares as it makes connections.
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

// left is joined's counterpart; p.mu is held.
func (p *Pool) left(o *peer) {
	if o.holders--; o.holders == 0 {
		delete(p.peers, o.key)
	}
}

// leaves says whether the holder's peer may have n bytes more of those that are free.
// It may while there are shares for all holders, when it has nothing, and when it
// leaves others as much as it has. While there is no other peer, it leaves enough for
// one to come.
//
// It is the dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998):
// of k peers that take all they can get at the same time, each has one part of k+1,
// and one is free.
func (s *Share) leaves(n, free int64) bool {
	if !s.p.crowded.Load() {
		return true
	}
	held := s.peer.held.Load()
	return held == 0 || held+n <= free-n || free-n >= s.p.lone.Load()
}

// setLone sets what a peer leaves while it is the only one; p.mu is held.
func (p *Pool) setLone() {
	least := int64(math.MaxInt64)
	if len(p.peers) < 2 {
		least = p.limit / reservePart / othersPart
	}
	p.lone.Store(least)
}

// free is what of the limit nobody has; p.mu is held.
func (p *Pool) free() int64 { return p.limit - p.within.Load() - p.borrowed }
