package loopback

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// window is a type 2B memory window.
type window struct {
	driver.MW
	pd    *pd
	bound atomic.Pointer[binding]

	mu     sync.Mutex // orders bind and Close
	closed bool
}

// binding is the memory of a window, and the queue pair that may use it. It is set and
// removed with the lock of qp's link held.
type binding struct {
	key    uint32
	region *region
	off, n int
	access verbs.Access
	qp     *queuePair
}

// AllocMW implements verbs.PD.
func (p *pd) AllocMW() (verbs.MW, error) {
	w := &window{pd: p}
	if err := p.CreateMW(&w.MW); err != nil {
		return nil, fmt.Errorf("loopback: %w", err)
	}
	return w, nil
}

// Close revokes the window if it is bound.
func (w *window) Close() error {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	if closed {
		return nil
	}
	for b := w.bound.Load(); b != nil; b = w.bound.Load() {
		l := b.qp.end.link
		l.mu.Lock()
		if w.bound.Load() == b {
			w.unbind(b)
		}
		l.mu.Unlock()
	}
	w.Free()
	return nil
}

// prepare reserves a key for a bind that is being posted. The link's lock is held.
func (w *window) prepare(b verbs.BindInfo, r *region) uint32 {
	key := w.pd.dev.stags.add(stag{window: w})
	w.Posted(key, &r.MR, b.Offset)
	return key
}

// bind binds the window. It returns false if the window is bound or closed or the region is
// closed. A window must be free to be bound (InfiniBand specification 10.6.7.2.2). The
// link's lock is held. The key of a failed bind is freed when its queue pair is flushed.
func (w *window) bind(b *binding) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.bound.Load() != nil || !b.region.Use() {
		return false
	}
	b.qp.windows[w] = struct{}{}
	w.bound.Store(b)
	return true
}

// unbind revokes b, the window's binding. The link's lock is held.
func (w *window) unbind(b *binding) {
	w.bound.Store(nil)
	w.pd.dev.stags.remove(b.key)
	delete(b.qp.windows, w)
	b.region.Unuse()
}

// invalidate revokes the window with key on this queue pair. It returns false if there is
// none. Keys of regions cannot be invalidated. The link's lock is held.
func (q *queuePair) invalidate(key uint32) bool {
	w := q.dev.stags.get(key).window
	if w == nil {
		return false
	}
	b := w.bound.Load()
	if b == nil || b.key != key || b.qp != q {
		return false
	}
	w.unbind(b)
	return true
}
