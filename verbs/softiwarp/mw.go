package softiwarp

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// memWindow is a type 2B memory window. While bound it is on its queue
// pair's list of windows, which ends the binding with the queue pair.
type memWindow struct {
	driver.MW
	region

	mu     sync.Mutex
	closed bool
	bound  uint32     // the key in force; 0 when unbound
	mr     *memRegion // while bound
	posted int        // binds posted and not executed

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

// prepare reserves the key of a bind that is being posted; false once the
// window or the region is closed. execute or abandon must follow.
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

// execute binds the window on q; false when it is bound already.
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

// unbind ends the binding under key on q (any queue pair when nil), and says
// whether there was one. On return no peer reads or writes through it any more.
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

// Close frees the window; a binding ends. It fails with ErrBusy while a
// posted bind names the window.
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

// unbindFrom ends whatever binding there is on q.
func (w *memWindow) unbindFrom(q *queuePair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bound != 0 && w.qp == q {
		w.unbindLocked()
	}
}
