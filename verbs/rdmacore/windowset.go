//go:build rdmacore && cgo

package rdmacore

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// boundWindow is a window that is bound under a key, or about to be.
type boundWindow struct {
	w       *memWindow
	mr      *memRegion
	revoked bool // an invalidation is posted
	// unsure means that the bind was flushed. rxe reports that even for binds that it
	// executed. The binding must not be used, and mr is released, but the window may keep
	// the queue pair alive.
	unsure bool
}

// letGo allows the region to be closed.
func (b *boundWindow) letGo() {
	if !b.unsure {
		b.mr.Unuse()
	}
}

// windowSet holds the windows bound on one queue pair, by key. It keeps their regions from
// being closed. Its lock is a leaf.
type windowSet struct {
	mu    sync.Mutex
	bound map[uint32]boundWindow
}

func (s *windowSet) add(key uint32, b boundWindow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound == nil {
		s.bound = make(map[uint32]boundWindow)
	}
	s.bound[key] = b
}

// revoke records that an invalidation is posted. It returns false when there is nothing to
// invalidate. rxe of 6.1 crashes the kernel over a key that is not bound.
func (s *windowSet) revoke(key uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.bound[key]
	if !ok || b.revoked || b.unsure {
		return false
	}
	b.revoked = true
	s.bound[key] = b
	return true
}

// window returns the window that is bound under a key, or nil.
func (s *windowSet) window(key uint32) *memWindow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound[key].w
}

// drop records that a key is no longer bound.
func (s *windowSet) drop(key uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.bound[key]; ok {
		b.letGo()
		delete(s.bound, key)
	}
}

// done records the outcome of a bind or an invalidation.
func (s *windowSet) done(op verbs.Opcode, key uint32, status verbs.WCStatus) {
	switch ok := status == verbs.WCSuccess; {
	case op == verbs.OpBindMW && status == verbs.WCWRFlushErr:
		s.doubt(key)
	case op == verbs.OpBindMW && !ok, op == verbs.OpLocalInvalidate && ok:
		s.drop(key)
	}
}

// doubt records that a bind was flushed.
func (s *windowSet) doubt(key uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.bound[key]; ok {
		b.letGo()
		b.unsure = true
		s.bound[key] = b
	}
}

// dropAll records that a window is gone.
func (s *windowSet) dropAll(w *memWindow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.bound {
		if b.w == w {
			b.letGo()
			delete(s.bound, key)
		}
	}
}

// has reports whether a window is bound, and whether it has a flushed bind (unsure).
func (s *windowSet) has(w *memWindow) (bound, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bound {
		if b.w == w {
			bound, unsure = bound || !b.unsure, unsure || b.unsure
		}
	}
	return bound, unsure
}

// all returns the windows that are bound or may be bound.
func (s *windowSet) all() []*memWindow {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*memWindow, 0, len(s.bound))
	for _, b := range s.bound {
		list = append(list, b.w)
	}
	return list
}
