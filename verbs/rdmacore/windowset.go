//go:build rdmacore && cgo

package rdmacore

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// boundWindow is a window that is bound under some key, or about to be.
type boundWindow struct {
	w       *memWindow
	mr      *memRegion
	revoked bool // an invalidation is posted
	// unsure: the bind was flushed, which rxe says of those that it has carried
	// out, too. Nobody may use it, and mr is let go, but the window may hold the
	// queue pair.
	unsure bool
}

// letGo lets the region be closed.
func (b *boundWindow) letGo() {
	if !b.unsure {
		b.mr.Unuse()
	}
}

// windowSet are the windows bound on one queue pair, by key. It keeps their
// regions from being closed. Its lock is a leaf.
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

// revoke notes that an invalidation is posted; false when there is nothing to
// invalidate. rxe of 6.1 brings the kernel down over a key that is not bound.
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

// drop notes that a key is bound no more.
func (s *windowSet) drop(key uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.bound[key]; ok {
		b.letGo()
		delete(s.bound, key)
	}
}

// done takes the outcome of a bind or an invalidation.
func (s *windowSet) done(op verbs.Opcode, key uint32, status verbs.WCStatus) {
	switch ok := status == verbs.WCSuccess; {
	case op == verbs.OpBindMW && status == verbs.WCWRFlushErr:
		s.doubt(key)
	case op == verbs.OpBindMW && !ok, op == verbs.OpLocalInvalidate && ok:
		s.drop(key)
	}
}

// doubt notes that a bind was flushed.
func (s *windowSet) doubt(key uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.bound[key]; ok {
		b.letGo()
		b.unsure = true
		s.bound[key] = b
	}
}

// dropAll notes that a window is gone.
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

// has says whether a window is bound, and whether it may be without being of use.
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

// all are the windows that are bound, or may be.
func (s *windowSet) all() []*memWindow {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*memWindow, 0, len(s.bound))
	for _, b := range s.bound {
		list = append(list, b.w)
	}
	return list
}
