//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// interfacesWith returns the indices of the interfaces that have the address a. If a has a
// zone, only the interface of that zone counts.
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
	return having(messages, a, zone)
}

// errInterrupted means that addresses changed while they were listed. The list may then
// lack an address that did not change.
var errInterrupted = errors.New("the interfaces' addresses change")

// having returns the indices of the interfaces that have an address, from a list of all.
func having(messages []syscall.NetlinkMessage, a netip.Addr, zone int) (all []int, err error) {
	for i := range messages {
		m := &messages[i]
		if m.Header.Flags&unix.NLM_F_DUMP_INTR != 0 {
			return nil, errInterrupted
		}
		index, has := addressOf(m)
		if has == a && (zone == 0 || zone == index) {
			all = append(all, index)
		}
	}
	return all, nil
}

// addressOf returns the interface and the address of an RTM_NEWADDR.
func addressOf(m *syscall.NetlinkMessage) (index int, a netip.Addr) {
	if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
		return 0, netip.Addr{}
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return 0, netip.Addr{}
	}
	for _, attr := range attrs {
		// If both are present, IFA_ADDRESS is the peer's address (if_addr.h).
		if attr.Attr.Type == syscall.IFA_LOCAL || attr.Attr.Type == syscall.IFA_ADDRESS && !a.IsValid() {
			a, _ = netip.AddrFromSlice(attr.Value)
		}
	}
	return int((*syscall.IfAddrmsg)(unsafe.Pointer(&m.Data[0])).Index), a
}

// zoneIndex returns the index of an interface from its name or number, or 0 for none.
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
