package driver

import (
	"fmt"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// regionClosed is added to MR.uses by Shut.
const regionClosed = -1 << 30

// MR is a registered memory region. Its exported fields are constant.
type MR struct {
	Buf    []byte
	Access verbs.Access
	Base   uint64 // address of Buf[0] for peers
	Key    uint32 // key for peers
	pd     *PD
	// uses counts the users that keep the region from being closed: bound windows and, in
	// some providers, posted requests. It is negative once the region is closed.
	uses atomic.Int32
}

// Bytes implements verbs.MR.
func (m *MR) Bytes() []byte { return m.Buf }

// Addr implements verbs.MR.
func (m *MR) Addr() uint64 { return m.Base }

// RKey implements verbs.MR.
func (m *MR) RKey() uint32 { return m.Key }

// Use counts one more use. It returns false if the region is closed.
func (m *MR) Use() bool {
	if m.uses.Add(1) > 0 {
		return true
	}
	m.uses.Add(-1)
	return false
}

// Unuse ends one Use.
func (m *MR) Unuse() { m.uses.Add(-1) }

// Closed reports whether the region is closed.
func (m *MR) Closed() bool { return m.uses.Load() < 0 }

// Shut closes the region. first is true for the call that closed it. It fails with ErrBusy
// while there are uses. The caller must then call Free or Reopen.
func (m *MR) Shut() (first bool, err error) {
	switch {
	case m.uses.CompareAndSwap(0, regionClosed):
		return true, nil
	case m.Closed():
		return false, nil
	}
	return false, fmt.Errorf("memory region in use: %w", verbs.ErrBusy)
}

// Reopen undoes Shut if the device fails to deregister the region.
func (m *MR) Reopen() { m.uses.Add(-regionClosed) }

// Free uncounts a destroyed region.
func (m *MR) Free() { m.pd.unuse(MRs) }

// has reports whether n bytes at off lie within the region.
func (m *MR) has(off, n int) bool {
	return off >= 0 && n >= 0 && off <= len(m.Buf) && n <= len(m.Buf)-off
}

// CheckSGE returns why e, which names m, cannot be posted on a queue pair of pd. need are
// the rights that the region must have.
func (m *MR) CheckSGE(pd *PD, e *verbs.SGE, need verbs.Access) error {
	switch {
	case m.pd != pd:
		return ErrForeignMR
	case !m.has(e.Offset, e.Length):
		return ErrSGEBounds
	case m.Access&need != need:
		return ErrSGEAccess
	}
	return nil
}

// MW is the common part of a type 2B memory window.
type MW struct {
	pd   *PD
	key  atomic.Uint32 // of the last bind posted
	addr atomic.Uint64
}

// RKey implements verbs.MW.
func (w *MW) RKey() uint32 { return w.key.Load() }

// Addr implements verbs.MW.
func (w *MW) Addr() uint64 { return w.addr.Load() }

// Posted records that a bind with key, at off of m, is posted.
func (w *MW) Posted(key uint32, m *MR, off int) {
	w.key.Store(key)
	w.addr.Store(m.Base + uint64(off))
}

// Free uncounts a destroyed window.
func (w *MW) Free() { w.pd.unuse(MWs) }

// CheckBind returns why a bind of w to m cannot be posted on a queue pair of pd.
func (w *MW) CheckBind(pd *PD, m *MR, b *verbs.BindInfo) error {
	const remote = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	switch {
	case w.pd != pd:
		return ErrForeignMW
	case m.pd != pd:
		return ErrForeignMR
	case !m.has(b.Offset, b.Length):
		return ErrBindBounds
	case b.Access == 0 || b.Access&^remote != 0 || !m.Access.Binds(b.Access):
		return ErrBindAccess
	}
	return nil
}
