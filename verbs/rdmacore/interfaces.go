//go:build rdmacore && cgo

package rdmacore

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"
)

// interfacesWith gives the indices of the interfaces that have an address, of
// that of its zone alone if it has one.
func interfacesWith(a netip.Addr) (all []int, err error) {
	zone := zoneIndex(a.Zone())
	a = a.WithZone("")
	dump, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		index, has := addressOf(&messages[i])
		if has == a && (zone == 0 || zone == index) {
			all = append(all, index)
		}
	}
	return all, nil
}

// addressOf gives the interface and the address of an RTM_NEWADDR.
func addressOf(m *syscall.NetlinkMessage) (index int, a netip.Addr) {
	if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
		return 0, netip.Addr{}
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, netip.Addr{}
	}
	for _, attr := range attrs {
		// IFA_ADDRESS is the peer's where both are there (if_addr.h).
		if attr.Attr.Type == syscall.IFA_LOCAL || attr.Attr.Type == syscall.IFA_ADDRESS && !a.IsValid() {
			a, _ = netip.AddrFromSlice(attr.Value)
		}
	}
	return int((*syscall.IfAddrmsg)(unsafe.Pointer(&m.Data[0])).Index), a
}

// zoneIndex gives the index of an interface from its name or number; 0 is none.
func zoneIndex(zone string) int {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return i.Index
	}
	n, err := strconv.ParseUint(zone, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
