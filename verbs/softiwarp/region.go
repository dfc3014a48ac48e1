package softiwarp

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// revoked is added to region.pins while the region may not be used.
const revoked = -1 << 30

// region is memory that a peer can name: a memory region or a bound window.
//
// A remote access pins the region, checks the access, copies bytes and unpins. Revoking
// waits for the pins. Each pin lasts for at most one copy or one non-blocking system call.
// The fields after drained do not change while the region is not revoked.
type region struct {
	stag    atomic.Uint32
	pins    atomic.Int32
	drained chan struct{}

	pd     *protectionDomain
	win    *memWindow // the window that this region belongs to, or nil
	qp     *queuePair // windows: the only queue pair whose peer may access the region
	access verbs.Access
	// exposed means that the memory may change while it is sent, through this region or through
	// the memory region that a window is bound to, and that this would hurt a peer that has
	// done nothing wrong. Some peer may write to it. Or some peer may read it while the data of
	// another one is placed there by a Send or a Read Response.
	exposed bool
	base    uint64 // address of buf[0] as peers see it
	buf     []byte
}

// init prepares the region in the revoked state.
func (r *region) init(pd *protectionDomain) {
	r.pd = pd
	r.drained = make(chan struct{}, 1)
	r.pins.Store(revoked)
}

// enable makes the region usable under stag.
func (r *region) enable(stag uint32) {
	r.stag.Store(stag)
	r.pins.Add(-revoked)
}

// revoke makes the region unusable and returns when all pins have ended. The region must
// be enabled, and the caller must hold no pin.
func (r *region) revoke() {
	r.stag.Store(0)
	r.pins.Add(revoked)
	for r.pins.Load() != revoked {
		<-r.drained
	}
}

// pin prevents revoking until unpin. It returns false if the region is not usable under
// stag.
func (r *region) pin(stag uint32) bool {
	if stag == 0 {
		return false // revoke clears the STag first
	}
	if r.pins.Add(1) > 0 && r.stag.Load() == stag {
		return true
	}
	r.unpin()
	return false
}

func (r *region) unpin() {
	if r.pins.Add(-1) == revoked {
		select {
		case r.drained <- struct{}{}:
		default:
		}
	}
}

// verdict is the outcome of an access check.
type verdict uint8

const (
	allowed verdict = iota
	badSTag
	notAssociated
	noRight
	wraps
	outOfBounds
)

// check decides whether q's peer may access n bytes at address to. The
// caller has pinned the region.
func (r *region) check(q *queuePair, want verbs.Access, to uint64, n uint64) verdict {
	switch {
	case r.pd != q.pd, r.qp != nil && r.qp != q:
		return notAssociated
	case r.access&want == 0:
		return noRight
	case to+n < to:
		return wraps
	case to < r.base, to-r.base > uint64(len(r.buf)), n > uint64(len(r.buf))-(to-r.base):
		return outOfBounds
	}
	return allowed
}

// at returns the n bytes at address to, which check has allowed.
func (r *region) at(to uint64, n int) []byte {
	off := int(to - r.base)
	return r.buf[off : off+n]
}
