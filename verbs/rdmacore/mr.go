//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/rdmad/rdmad/verbs"
)

// mrClosed is added to memRegion.windows by Close.
const mrClosed = -1 << 30

// memRegion is a registered memory region. Its buffer is pinned while it
// exists: neither moved nor freed by Go's runtime, whose memory C may then
// keep.
type memRegion struct {
	pd     *protectionDomain
	c      *C.struct_ibv_mr
	buf    []byte
	access verbs.Access
	pin    runtime.Pinner

	base       uint64
	lkey, rkey uint32
	windows    atomic.Int32 // bound to the region; negative once it is closed
}

const remoteAccess = verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// RegMR implements verbs.PD. The remote address of the buffer is its virtual
// one: not every device has others.
func (pd *protectionDomain) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	switch {
	case len(buf) == 0:
		return nil, invalid("empty memory region")
	case access&^verbs.AccessAll != 0:
		return nil, invalid(fmt.Sprintf("access %#x", access))
	case access&verbs.AccessRemoteWrite != 0 && access&verbs.AccessLocalWrite == 0:
		return nil, invalid("remote without local write")
	}
	if err := pd.use(); err != nil {
		return nil, err
	}
	m := &memRegion{pd: pd, buf: buf, access: access}
	m.pin.Pin(unsafe.SliceData(buf))
	rc := command(func() C.int {
		return C.rdmad_reg_mr(pd.c, unsafe.Pointer(unsafe.SliceData(buf)), C.size_t(len(buf)), pd.accessFlags(access), &m.c)
	})
	if rc != 0 {
		m.pin.Unpin()
		pd.unuse()
		return nil, registrationError(len(buf), rc)
	}
	m.base = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
	m.lkey, m.rkey = uint32(m.c.lkey), uint32(m.c.rkey)
	pd.dev.live.mrs.Add(1)
	return m, nil
}

// accessFlags are libibverbs' for access.
func (pd *protectionDomain) accessFlags(access verbs.Access) C.int {
	var flags C.int
	if access&verbs.AccessLocalWrite != 0 {
		flags |= C.IBV_ACCESS_LOCAL_WRITE
	}
	if access&(remoteAccess|verbs.AccessMWBind) != 0 && pd.dev.attr.MemWindowType2B {
		flags |= C.IBV_ACCESS_MW_BIND
	}
	return flags | remoteFlags(access)
}

func remoteFlags(access verbs.Access) (flags C.int) {
	if access&verbs.AccessRemoteWrite != 0 {
		flags |= C.IBV_ACCESS_REMOTE_WRITE
	}
	if access&verbs.AccessRemoteRead != 0 {
		flags |= C.IBV_ACCESS_REMOTE_READ
	}
	return flags
}

func (m *memRegion) Bytes() []byte { return m.buf }
func (m *memRegion) Addr() uint64  { return m.base }
func (m *memRegion) RKey() uint32  { return m.rkey }

func (m *memRegion) closed() bool { return m.windows.Load() < 0 }

// useWindow counts one more window; false once the region is closed.
func (m *memRegion) useWindow() bool {
	if m.windows.Add(1) > 0 {
		return true
	}
	m.windows.Add(-1)
	return false
}

func (m *memRegion) unuseWindow() { m.windows.Add(-1) }

// Close implements verbs.MR. Requests that still name the region fail, and
// their queue pairs with them.
func (m *memRegion) Close() error {
	if !m.windows.CompareAndSwap(0, mrClosed) {
		if m.closed() {
			return nil
		}
		return fmt.Errorf("rdmacore: memory region with windows: %w", verbs.ErrBusy)
	}
	if rc := command(func() C.int { return C.ibv_dereg_mr(m.c) }); !m.pd.dev.destroyed(rc) {
		m.windows.Store(0)
		return failed("deregister memory", rc)
	}
	m.pin.Unpin()
	m.pd.unuse()
	m.pd.dev.live.mrs.Add(-1)
	return nil
}

// sge translates an entry that names memory of pd, whose region must have the
// rights of access.
func (pd *protectionDomain) sge(e *verbs.SGE, access verbs.Access, out *C.struct_ibv_sge) bool {
	m, ok := e.MR.(*memRegion)
	if !ok || m.pd != pd || e.Offset < 0 || e.Length < 0 || e.Offset > len(m.buf) || e.Length > len(m.buf)-e.Offset ||
		m.closed() || m.access&access != access {
		return false
	}
	out.addr = C.uint64_t(m.base + uint64(e.Offset))
	out.length = C.uint32_t(e.Length)
	out.lkey = C.uint32_t(m.lkey)
	return uint64(e.Length) <= uint64(pd.dev.attr.MaxMsgSize)
}
