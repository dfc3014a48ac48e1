//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// keyPart is the part of a window's key that its owner chooses (InfiniBand
// specification 10.6.7.2.2).
const keyPart = 0xff

// memWindow is a type 2B memory window. The device's window is allocated for the first
// bind. It is freed with the queue pair on which it is bound, because rxe would otherwise
// keep that queue pair alive.
type memWindow struct {
	driver.MW
	pd   *protectionDomain
	step uint32 // added to each key to get the next one; odd and random

	mu     sync.Mutex
	c      *C.struct_ibv_mw
	base   uint32 // the device's part of the key
	next   uint32 // our part of the next key
	qp     *queuePair
	closed bool
}

// AllocMW implements verbs.PD.
func (pd *protectionDomain) AllocMW() (verbs.MW, error) {
	var random [2]byte
	_, _ = rand.Read(random[:]) // never fails
	w := &memWindow{pd: pd, step: uint32(random[0]) | 1, next: uint32(random[1])}
	if err := pd.CreateMW(&w.MW); err != nil {
		return nil, fmt.Errorf("rdmacore: %w", err)
	}
	if err := w.allocateLocked(); err != nil {
		w.Free()
		return nil, err
	}
	return w, nil
}

func (w *memWindow) allocateLocked() error {
	if rc := command(func() C.int { return C.rdmad_alloc_mw(w.pd.c, &w.c) }); rc != 0 {
		return failed("allocate memory window", rc)
	}
	w.base = uint32(w.c.rkey) &^ keyPart
	if w.next&keyPart == uint32(w.c.rkey)&keyPart {
		w.next += w.step
	}
	return nil
}

// Close implements verbs.MW.
func (w *memWindow) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if err := w.freeLocked(); err != nil {
		return err
	}
	w.closed = true
	w.Free()
	return nil
}

// freeLocked frees the device's window, which also revokes it.
func (w *memWindow) freeLocked() error {
	if w.c == nil {
		return nil
	}
	if rc := command(func() C.int { return C.ibv_dealloc_mw(w.c) }); !w.pd.dev.destroyed(rc) {
		return failed("deallocate memory window", rc)
	}
	w.c = nil
	if w.qp != nil {
		w.qp.windows.dropAll(w)
		w.qp = nil
	}
	return nil
}

// leave frees the device's window if it is bound on q.
func (w *memWindow) leave(q *queuePair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.qp != q {
		return
	}
	if err := w.freeLocked(); err != nil {
		q.dev.config.Logger.Warn("rdmacore: window of an ended queue pair", "error", err)
	}
}

// comeLocked takes the window from the queue pair on which it was last bound.
func (w *memWindow) comeLocked(q *queuePair) error {
	if w.qp == nil || w.qp == q {
		return nil
	}
	bound, unsure := w.qp.windows.has(w)
	switch {
	case bound:
		return errBound
	case unsure:
		return w.freeLocked()
	}
	return nil
}

// revokeDone revokes a window on rxe, when the next request to complete is its invalidation.
// rxe of 6.1 crashes the kernel when the peer invalidates the window, too, before or after
// us, which happens when a call is canceled (rxe_do_invalidate_mw). So the device gets an
// empty RDMA Write in place of the invalidation, and the window is freed when that has
// completed. The caller holds the locks of the send CQ and the send queue.
func (q *queuePair) revokeDone() {
	s := &q.sq
	e := s.at(s.head)
	if !q.dev.is(vendorRXE) || s.head == s.tail || s.failed || e.op != verbs.OpLocalInvalidate || !e.done || e.status != verbs.WCSuccess {
		return
	}
	w := q.windows.window(e.key)
	if w == nil {
		return // the peer has invalidated it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.freeLocked(); err != nil {
		e.status = verbs.WCLocQPOpErr
		q.failSoon(err)
	}
}

// prepareBind checks a bind that is being posted and assigns its key.
func (q *queuePair) prepareBind(b *verbs.BindInfo, e *sendEntry, r *C.struct_rdmad_send) error {
	w, ok := b.MW.(*memWindow)
	if !ok {
		return driver.ErrForeignMW
	}
	m, ok := b.MR.(*memRegion)
	if !ok {
		return driver.ErrForeignMR
	}
	if err := w.CheckBind(&q.pd.PD, &m.MR, b); err != nil {
		return err
	}
	if b.Length == 0 {
		return driver.ErrBindBounds
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return driver.ErrClosedMW
	}
	if err := w.comeLocked(q); err != nil {
		return err
	}
	if w.c == nil {
		if err := w.allocateLocked(); err != nil {
			return err
		}
	}
	if !m.Use() {
		return driver.ErrClosedMW
	}
	e.key = w.base | w.next&keyPart
	w.next += w.step
	w.qp = q
	w.Posted(e.key, &m.MR, b.Offset)
	q.windows.add(e.key, boundWindow{w: w, mr: m})
	r.bind_mw, r.bind_mr = C.uintptr_t(cAddress(w.c)), C.uintptr_t(cAddress(m.c))
	r.bind_rkey, r.bind_access = C.uint32_t(e.key), C.uint32_t(remoteFlags(b.Access))
	r.bind_addr, r.bind_length = C.uint64_t(m.Base+uint64(b.Offset)), C.uint64_t(b.Length)
	return nil
}

var errBound = driver.Invalid("the window is bound on another queue pair")
