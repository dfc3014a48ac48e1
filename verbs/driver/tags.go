package driver

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// minSlots is the size of a new table. All sizes are powers of two.
const minSlots = 64

// Tags finds the memory under the steering tags (STags) of a device in software. The zero value
// is ready to use.
//
// An STag is 32 random bits, because a peer must not be able to guess it (RFC 5042 §7.1).
// STags are drawn until the slot that the low bits select is free. So a look-up is one load
// and never waits, and a table doubled in size has no collisions. The table is at most half
// full, so that two draws suffice on average.
type Tags struct {
	// Random returns 32 random bits. Nil is a source that no peer can guess.
	Random func() uint32

	slots atomic.Pointer[tagSlots] // nil before the first STag

	mu     sync.Mutex
	used   int
	random [512]byte
	unused []byte // of random
}

// tagSlots has one slot per value of an STag's low bits.
type tagSlots struct {
	regions []atomic.Pointer[Region]
	tags    []uint32 // of the regions; guarded by Tags.mu
}

func newSlots(n int) *tagSlots {
	return &tagSlots{regions: make([]atomic.Pointer[Region], n), tags: make([]uint32, n)}
}

func (s *tagSlots) index(stag uint32) uint32 {
	return stag & uint32(len(s.regions)-1)
}

func (s *tagSlots) put(stag uint32, r *Region) {
	i := s.index(stag)
	s.tags[i] = stag
	s.regions[i].Store(r)
}

// Len returns the number of STags in use.
func (t *Tags) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// reserve gives r a new STag. Look-ups find r from now on, but r.pin fails until r is
// enabled under the STag.
func (t *Tags) reserve(r *Region) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.slots.Load()
	if slots == nil {
		slots = newSlots(0)
	}
	if 2*(t.used+1) > len(slots.regions) {
		slots = t.grow(slots)
	}
	for {
		stag := t.drawLocked()
		if stag != 0 && slots.regions[slots.index(stag)].Load() == nil {
			slots.put(stag, r)
			t.used++
			return stag
		}
	}
}

// release frees an STag that reserve returned.
func (t *Tags) release(stag uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.slots.Load()
	slots.regions[slots.index(stag)].Store(nil)
	t.used--
}

// find returns the memory that may be under an STag, or nil.
func (t *Tags) find(stag uint32) *Region {
	slots := t.slots.Load()
	if slots == nil {
		return nil
	}
	return slots.regions[slots.index(stag)].Load()
}

// Reach finds the memory under an STag, and pins it if the peer of q has a right to its n bytes
// at address to. The caller unpins it. Without that right it returns why.
func (t *Tags) Reach(q *QP, right verbs.Access, stag uint32, to uint64, n int) (*Region, Verdict) {
	r := t.find(stag)
	if r == nil || !r.pin(stag) {
		return nil, BadSTag
	}
	if v := r.check(q, right, to, uint64(n)); v != Allowed {
		r.Unpin()
		return nil, v
	}
	return r, Allowed
}

// Invalidate revokes the window that is bound under an STag on q. It returns false if there is
// none. After it returns, no peer accesses memory through the window.
func (t *Tags) Invalidate(q *QP, stag uint32) bool {
	r := t.find(stag)
	return r != nil && r.win != nil && r.win.unbind(q, stag)
}

// grow doubles the table. Tags in different slots stay in different slots.
func (t *Tags) grow(old *tagSlots) *tagSlots {
	slots := newSlots(max(2*len(old.regions), minSlots))
	for i := range old.regions {
		if r := old.regions[i].Load(); r != nil {
			slots.put(old.tags[i], r)
		}
	}
	t.slots.Store(slots)
	return slots
}

// Draw returns 32 random bits.
func (t *Tags) Draw() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drawLocked()
}

// drawLocked takes the bits from a block of random bytes.
func (t *Tags) drawLocked() uint32 {
	if t.Random != nil {
		return t.Random()
	}
	if len(t.unused) == 0 {
		_, _ = rand.Read(t.random[:]) // never fails
		t.unused = t.random[:]
	}
	v := binary.LittleEndian.Uint32(t.unused)
	t.unused = t.unused[4:]
	return v
}

// address returns the address at which peers see a region: page-aligned, and far
// from both ends of the 64-bit space. It reveals nothing about the process's addresses.
func (t *Tags) address() uint64 {
	const page, span = 1 << 12, 1 << 47
	pages := uint64(t.Draw())<<32 | uint64(t.Draw())
	return span + pages%span&^(page-1)
}
