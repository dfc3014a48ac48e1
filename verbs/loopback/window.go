package loopback

import (
	"fmt"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// window is a type 2B memory window.
type window struct {
	pd     *pd
	posted atomic.Uint32 // key of the last bind posted
	addr   atomic.Uint64
	bound  atomic.Pointer[binding]
	closed bool // guarded by dev.mu
}

// binding is what a window shows, and to whom. It is put in place and taken
// away with the lock of qp's link held.
type binding struct {
	key    uint32
	region *region
	off, n int
	access verbs.Access
	qp     *queuePair
}

// AllocMW allocates an unbound window.
func (p *pd) AllocMW() (verbs.MW, error) {
	d := p.dev
	if !d.attr.MemWindowType2B {
		return nil, fmt.Errorf("loopback: memory windows: %w", verbs.ErrNotSupported)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.closed {
		return nil, verbs.ErrClosed
	}
	p.users++
	d.live.MWs++
	return &window{pd: p}, nil
}

func (w *window) RKey() uint32 { return w.posted.Load() }
func (w *window) Addr() uint64 { return w.addr.Load() }

// Close revokes the window if it is bound.
func (w *window) Close() error {
	d := w.pd.dev
	d.mu.Lock()
	if w.closed {
		d.mu.Unlock()
		return nil
	}
	w.closed = true
	d.mu.Unlock()
	for b := w.bound.Load(); b != nil; b = w.bound.Load() {
		l := b.qp.end.link
		l.mu.Lock()
		if w.bound.Load() == b {
			w.unbind(b)
		}
		l.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w.pd.users--
	d.live.MWs--
	return nil
}

// prepare reserves a key for a bind that is being posted; the link's lock is
// held.
func (w *window) prepare(b verbs.BindInfo, r *region) uint32 {
	key := w.pd.dev.stags.add(stag{window: w})
	w.posted.Store(key)
	w.addr.Store(r.addr + uint64(b.Offset))
	return key
}

// bind puts a binding in place; false when the window is bound or closed or
// the region is closed. A window must be free to be bound (InfiniBand
// specification 10.6.7.2.2). The link's lock is held. The key of a bind that
// failed is freed when its queue pair is flushed.
func (w *window) bind(b *binding) bool {
	d := w.pd.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.closed || w.bound.Load() != nil || b.region.uses.Load() < 0 {
		return false
	}
	b.region.windows++
	b.qp.windows[w] = struct{}{}
	w.bound.Store(b)
	return true
}

// unbind revokes b, the window's binding. The link's lock is held.
func (w *window) unbind(b *binding) {
	d := w.pd.dev
	w.bound.Store(nil)
	d.stags.remove(b.key)
	delete(b.qp.windows, w)
	d.mu.Lock()
	b.region.windows--
	d.mu.Unlock()
}

// invalidate revokes the window that key names on this queue pair; false when
// there is none. Keys of regions can't be invalidated. The link's lock is held.
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
