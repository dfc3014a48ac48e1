package softiwarp

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// minSlots is the size of a new table. All sizes are powers of two.
const minSlots = 64

// stagTable finds the region of a steering tag (STag).
//
// An STag is 32 random bits, because a peer must not be able to guess it (RFC 5042 §7.1).
// STags are drawn until the slot that the low bits select is free. So a look-up is one load
// and never waits, and a table doubled in size has no collisions. The table is at most half
// full, so that two draws suffice on average.
type stagTable struct {
	slots atomic.Pointer[stagSlots]

	mu     sync.Mutex
	used   int
	random [512]byte // random[next:] is unused
	next   int
}

// stagSlots has one slot per value of an STag's low bits.
type stagSlots struct {
	regions []atomic.Pointer[region]
	tags    []uint32 // of the regions; guarded by stagTable.mu
}

func newSlots(n int) *stagSlots {
	return &stagSlots{regions: make([]atomic.Pointer[region], n), tags: make([]uint32, n)}
}

func (s *stagSlots) index(stag uint32) uint32 {
	return stag & uint32(len(s.regions)-1)
}

func (s *stagSlots) put(stag uint32, r *region) {
	i := s.index(stag)
	s.tags[i] = stag
	s.regions[i].Store(r)
}

func (t *stagTable) init() {
	t.slots.Store(newSlots(minSlots))
	t.next = len(t.random)
}

// reserve gives r a new STag. Look-ups find r from now on, but r.pin fails until r is
// enabled under the STag.
func (t *stagTable) reserve(r *region) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.slots.Load()
	if 2*(t.used+1) > len(slots.regions) {
		slots = t.grow(slots)
	}
	for {
		stag := t.draw()
		if stag != 0 && slots.regions[slots.index(stag)].Load() == nil {
			slots.put(stag, r)
			t.used++
			return stag
		}
	}
}

// release frees an STag that reserve returned.
func (t *stagTable) release(stag uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slots := t.slots.Load()
	slots.regions[slots.index(stag)].Store(nil)
	t.used--
}

// pin looks an STag up and pins its region. It returns nil when there is none.
func (t *stagTable) pin(stag uint32) *region {
	slots := t.slots.Load()
	r := slots.regions[slots.index(stag)].Load()
	if r == nil || !r.pin(stag) {
		return nil
	}
	return r
}

// window returns the window that is bound under stag or will be soon. It returns nil when
// stag is unknown or belongs to a memory region.
func (t *stagTable) window(stag uint32) *memWindow {
	slots := t.slots.Load()
	r := slots.regions[slots.index(stag)].Load()
	if r == nil {
		return nil
	}
	return r.win
}

// grow doubles the table. Tags in different slots stay in different slots.
func (t *stagTable) grow(old *stagSlots) *stagSlots {
	slots := newSlots(2 * len(old.regions))
	for i := range old.regions {
		if r := old.regions[i].Load(); r != nil {
			slots.put(old.tags[i], r)
		}
	}
	t.slots.Store(slots)
	return slots
}

// draw returns 32 bits from a block of random bytes.
func (t *stagTable) draw() uint32 {
	if t.next+4 > len(t.random) {
		_, _ = rand.Read(t.random[:]) // never fails
		t.next = 0
	}
	v := binary.LittleEndian.Uint32(t.random[t.next:])
	t.next += 4
	return v
}
