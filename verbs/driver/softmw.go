package driver

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// SoftMW is a type 2B memory window of a SoftPD. While bound, it is on the list of windows of
// its queue pair. The binding ends with the queue pair at the latest.
type SoftMW struct {
	MW
	Region

	mu     sync.Mutex
	closed bool
	bound  uint32  // the current key; 0 when unbound
	mr     *SoftMR // while bound; otherwise nil
	posted int     // posted binds that are not executed yet

	prev, next *SoftMW // guarded by QP.winMu
}

// Binding is one posted OpBindMW of a SoftMW. The zero value is none.
type Binding struct {
	mw     *SoftMW
	mr     *SoftMR
	off, n int
	access verbs.Access
	key    uint32
}

// Prepare checks a bind that is being posted on q, and reserves its key. After it, Execute or
// Abandon must follow.
func (b *Binding) Prepare(q *QP, info *verbs.BindInfo) error {
	w, ok := info.MW.(*SoftMW)
	if !ok {
		return ErrForeignMW
	}
	m, ok := info.MR.(*SoftMR)
	if !ok {
		return ErrForeignMR
	}
	if err := w.CheckBind(q.pd, &m.MR, info); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || !m.Use() {
		return ErrClosedMW
	}
	w.posted++
	key := w.domain.tags.reserve(&w.Region)
	*b = Binding{mw: w, mr: m, off: info.Offset, n: info.Length, access: info.Access, key: key}
	w.Posted(key, &m.MR, b.off)
	return nil
}

// Execute binds the window on q. It returns false if the window is bound already.
func (b *Binding) Execute(q *QP) bool {
	w := b.mw
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bound != 0 {
		return false
	}
	w.posted--
	w.qp, w.access, w.Exposed = q, b.access, b.mr.Exposed
	w.base, w.buf = b.mr.base+uint64(b.off), b.mr.buf[b.off:b.off+b.n]
	w.mr, w.bound = b.mr, b.key
	q.addWindow(w)
	w.enable(b.key)
	return true
}

// Abandon undoes Prepare for a bind that is not executed.
func (b *Binding) Abandon() {
	if b.mw == nil {
		return
	}
	b.mw.mu.Lock()
	defer b.mw.mu.Unlock()
	b.mw.posted--
	b.mw.domain.tags.release(b.key)
	b.mr.Unuse()
}

// unbind ends the binding under key on q. It reports whether there was one. After it
// returns, no peer accesses memory through the binding.
func (w *SoftMW) unbind(q *QP, key uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key == 0 || w.bound != key || w.qp != q {
		return false
	}
	w.unbindLocked()
	return true
}

func (w *SoftMW) unbindLocked() {
	w.revoke()
	w.domain.tags.release(w.bound)
	w.qp.removeWindow(w)
	w.mr.Unuse()
	w.bound, w.mr, w.qp, w.buf = 0, nil, nil, nil
}

// Close revokes and frees the window. It fails with ErrBusy while a bind of the window is
// posted.
func (w *SoftMW) Close() error {
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
func (w *SoftMW) unbindFrom(q *QP) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bound != 0 && w.qp == q {
		w.unbindLocked()
	}
}

func (q *QP) addWindow(w *SoftMW) {
	q.winMu.Lock()
	defer q.winMu.Unlock()
	w.prev, w.next = nil, q.windows
	if w.next != nil {
		w.next.prev = w
	}
	q.windows = w
}

func (q *QP) removeWindow(w *SoftMW) {
	q.winMu.Lock()
	defer q.winMu.Unlock()
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.windows = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// UnbindWindows ends the remaining bindings when the queue pair ends.
func (q *QP) UnbindWindows() {
	for {
		q.winMu.Lock()
		w := q.windows
		q.winMu.Unlock()
		if w == nil {
			return
		}
		w.unbindFrom(q)
	}
}
