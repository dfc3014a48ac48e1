//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"net/netip"
	"strconv"
)

// toC returns the shim's form of an address. It omits an unknown zone.
func toC(ap netip.AddrPort) (a C.struct_rdmad_address) {
	for i, b := range ap.Addr().As16() {
		a.ip[i] = C.uint8_t(b)
	}
	a.port = C.uint16_t(ap.Port())
	if ap.Addr().Unmap().Is4() {
		a.v4 = 1
	}
	a.scope = C.uint32_t(zoneIndex(ap.Addr().Zone()))
	return a
}

func fromC(a *C.struct_rdmad_address) netip.AddrPort {
	var ip [16]byte
	for i := range ip {
		ip[i] = byte(a.ip[i])
	}
	addr := netip.AddrFrom16(ip).Unmap()
	if a.scope != 0 && addr.Is6() {
		addr = addr.WithZone(strconv.Itoa(int(a.scope)))
	}
	return netip.AddrPortFrom(addr, uint16(a.port))
}

func localAddress(id *C.struct_rdma_cm_id) netip.AddrPort {
	var a C.struct_rdmad_address
	C.rdmad_local_address(id, &a)
	return fromC(&a)
}

func peerAddress(id *C.struct_rdma_cm_id) netip.AddrPort {
	var a C.struct_rdmad_address
	C.rdmad_peer_address(id, &a)
	return fromC(&a)
}
