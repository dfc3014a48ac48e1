package loopback

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// stag is what a steering tag refers to: a region or a window.
type stag struct {
	region *region
	window *window
}

// stagTable maps the steering tags of a device. It contains a window's tag from the moment
// its bind is posted. window.bound says whether the tag works.
type stagTable struct {
	mu      sync.RWMutex
	entries map[uint32]stag
}

// add adds s with a new random tag, never 0. A peer must not be able to guess it (RFC 5042
// §7.1).
func (t *stagTable) add(s stag) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		key := randomTag()
		if _, taken := t.entries[key]; key != 0 && !taken {
			t.entries[key] = s
			return key
		}
	}
}

func (t *stagTable) get(key uint32) stag {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries[key]
}

func (t *stagTable) remove(key uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, key)
}

func randomTag() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.NativeEndian.Uint32(b[:])
}
