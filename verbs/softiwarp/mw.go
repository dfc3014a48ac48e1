package softiwarp

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// memWindow is a type 2B memory window. While bound, it is on the list of windows of its
// queue pair. The binding ends with the queue pair at the latest.
type memWindow struct {
	driver.MW
	region

	mu     sync.Mutex
	closed bool
	bound  uint32     // the current key; 0 when unbound
	mr     *memRegion // while bound; otherwise nil
	posted int        // posted binds that are not executed yet

	prev, next *memWindow // guarded by queuePair.winMu
}

// binding is one posted OpBindMW.
type binding struct {
	mw     *memWindow
	mr     *memRegion
	off, n int
	access verbs.Access
	key    uint32
}

// prepare reserves the key of a bind that is being posted. It returns false if the window
// or the region is closed. After true, execute or abandon must follow.
func (b *binding) prepare() bool {
	b.mw.mu.Lock()
	defer b.mw.mu.Unlock()
	if b.mw.closed || !b.mr.Use() {
		return false
	}
	b.mw.posted++
	b.key = b.mw.pd.dev.stags.reserve(&b.mw.region)
	b.mw.Posted(b.key, &b.mr.MR, b.off)
	return true
}

// execute binds the window on q. It returns false when the window is bound already.
func (b *binding) execute(q *queuePair) bool {
	w := b.mw
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bound != 0 {
		return false
	}
	w.posted--
	w.qp, w.access, w.exposed = q, b.access, b.mr.exposed
	w.base, w.buf = b.mr.base+uint64(b.off), b.mr.buf[b.off:b.off+b.n]
	w.mr, w.bound = b.mr, b.key
	q.addWindow(w)
	w.enable(b.key)
	return true
}

// abandon undoes prepare for a bind that is not executed.
func (b *binding) abandon() {
	b.mw.mu.Lock()
	defer b.mw.mu.Unlock()
	b.mw.posted--
	b.mw.pd.dev.stags.release(b.key)
	b.mr.Unuse()
}

// unbind ends the binding under key on q, or on any queue pair when q is nil. It reports
// whether there was one. After it returns, no peer accesses memory through the binding.
func (w *memWindow) unbind(q *queuePair, key uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key == 0 || w.bound != key || (q != nil && w.qp != q) {
		return false
	}
	w.unbindLocked()
	return true
}

func (w *memWindow) unbindLocked() {
	w.revoke()
	w.pd.dev.stags.release(w.bound)
	w.qp.removeWindow(w)
	w.mr.Unuse()
	w.bound, w.mr, w.qp, w.buf = 0, nil, nil, nil
}

// Close revokes and frees the window. It fails with ErrBusy while a bind of the window is
// posted.
func (w *memWindow) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil
	case w.posted > 0:
		return verbs.ErrBusy
	case w.bound != 0:
		w.unbindLocked()
	}
	w.closed = true
	w.Free()
	return nil
}

// unbindFrom ends the window's binding if it is on q.
func (w *memWindow) unbindFrom(q *queuePair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bound != 0 && w.qp == q {
		w.unbindLocked()
	}
}
