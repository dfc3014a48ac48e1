package driver

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// revoked is added to Region.pins while the region may not be used.
const revoked = -1 << 30

// Region is memory that a peer can name: a memory region or a bound window.
//
// A remote access pins the region, checks the access, copies bytes and unpins. Revoking
// waits for the pins. Each pin lasts for at most one copy or one non-blocking system call.
// The fields after drained do not change while the region is not revoked.
type Region struct {
	stag    atomic.Uint32
	pins    atomic.Int32
	drained chan struct{}

	domain *SoftPD
	win    *SoftMW // the window that this region belongs to, or nil
	qp     *QP     // windows: the only queue pair whose peer may access the region
	access verbs.Access
	// Exposed means that the memory may change while it is sent, through this region or through
	// the memory region that a window is bound to, and that this would hurt a peer that has
	// done nothing wrong. Some peer may write to it. Or some peer may read it while the data of
	// another one is placed there by a Send or a Read Response.
	Exposed bool
	base    uint64 // address of buf[0] as peers see it
	buf     []byte
}

// init prepares the region in the revoked state.
func (r *Region) init(domain *SoftPD) {
	r.domain = domain
	r.drained = make(chan struct{}, 1)
	r.pins.Store(revoked)
}

// enable makes the region usable under stag.
func (r *Region) enable(stag uint32) {
	r.stag.Store(stag)
	r.pins.Add(-revoked)
}

// revoke makes the region unusable and returns when all pins have ended. The region must
// be enabled, and the caller must hold no pin.
func (r *Region) revoke() {
	r.stag.Store(0)
	r.pins.Add(revoked)
	for r.pins.Load() != revoked {
		<-r.drained
	}
}

// pin prevents revoking until Unpin. It returns false if the region is not usable under
// stag.
func (r *Region) pin(stag uint32) bool {
	if stag == 0 {
		return false // revoke clears the STag first
	}
	if r.pins.Add(1) > 0 && r.stag.Load() == stag {
		return true
	}
	r.Unpin()
	return false
}

// Unpin ends a pin.
func (r *Region) Unpin() {
	if r.pins.Add(-1) == revoked {
		select {
		case r.drained <- struct{}{}:
		default:
		}
	}
}

// Verdict is the outcome of an access check.
type Verdict uint8

// The outcomes.
const (
	Allowed Verdict = iota
	BadSTag
	NotAssociated
	NoRight
	Wraps
	OutOfBounds
)

// check decides whether q's peer may access n bytes at address to. The
// caller has pinned the region.
func (r *Region) check(q *QP, right verbs.Access, to uint64, n uint64) Verdict {
	switch {
	case &r.domain.PD != q.pd, r.qp != nil && r.qp != q:
		return NotAssociated
	case r.access&right == 0:
		return NoRight
	case to+n < to:
		return Wraps
	case to < r.base, to-r.base > uint64(len(r.buf)), n > uint64(len(r.buf))-(to-r.base):
		return OutOfBounds
	}
	return Allowed
}

// At returns the n bytes at address to, to which Reach has found a right.
func (r *Region) At(to uint64, n int) []byte {
	off := int(to - r.base)
	return r.buf[off : off+n]
}
