//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// memRegion is a registered memory region. Bound windows use it. Its buffer is pinned while
// the region exists: Go's runtime neither moves nor frees it, and C may keep its address.
type memRegion struct {
	driver.MR
	pd   *protectionDomain
	c    *C.struct_ibv_mr
	pin  runtime.Pinner
	lkey uint32
}

const remoteAccess = verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// RegMR implements verbs.PD. Peers address the buffer by its virtual address, because not
// every device supports other addresses.
func (pd *protectionDomain) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	m := &memRegion{pd: pd}
	if err := pd.CreateMR(&m.MR, buf, access); err != nil {
		return nil, err
	}
	m.pin.Pin(unsafe.SliceData(buf))
	rc := command(func() C.int {
		return C.rdmad_reg_mr(pd.c, unsafe.Pointer(unsafe.SliceData(buf)), C.size_t(len(buf)), pd.accessFlags(access), &m.c)
	})
	if rc != 0 {
		m.pin.Unpin()
		m.Free()
		return nil, registrationError(len(buf), rc)
	}
	m.Base = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
	m.lkey, m.Key = uint32(m.c.lkey), uint32(m.c.rkey)
	return m, nil
}

// accessFlags returns libibverbs' flags for access.
func (pd *protectionDomain) accessFlags(access verbs.Access) C.int {
	var flags C.int
	if access&verbs.AccessLocalWrite != 0 {
		flags |= C.IBV_ACCESS_LOCAL_WRITE
	}
	if access&(remoteAccess|verbs.AccessMWBind) != 0 && pd.dev.Attrs.MemWindowType2B {
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

// Close implements verbs.MR. Posted requests that use the region then fail, and so do their
// queue pairs.
func (m *memRegion) Close() error {
	first, err := m.Shut()
	if !first {
		return err
	}
	if rc := command(func() C.int { return C.ibv_dereg_mr(m.c) }); !m.pd.dev.destroyed(rc) {
		m.Reopen()
		return failed("deregister memory", rc)
	}
	m.pin.Unpin()
	m.Free()
	return nil
}

// sge translates an entry that names memory of pd. Its region must have the rights of
// access.
func (pd *protectionDomain) sge(e *verbs.SGE, access verbs.Access, out *C.struct_ibv_sge) error {
	m, ok := e.MR.(*memRegion)
	if !ok {
		return driver.ErrForeignMR
	}
	if err := m.CheckSGE(&pd.PD, e, access); err != nil {
		return err
	}
	switch {
	case m.Closed():
		return driver.ErrClosedMR
	case uint64(e.Length) > uint64(pd.dev.Attrs.MaxMsgSize):
		return driver.ErrTooLong
	}
	out.addr = C.uint64_t(m.Base + uint64(e.Offset))
	out.length = C.uint32_t(e.Length)
	out.lkey = C.uint32_t(m.lkey)
	return nil
}
