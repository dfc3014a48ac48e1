package rpcbind

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// Transport is the transport of a service.
type Transport uint8

// Transports with addresses of IP and port.
const (
	TCP  Transport = iota
	RDMA           // RPC-over-RDMA, any version
)

// netids of the transports over IPv4 and over IPv6 (RFC 5665 §4.1; for RDMA
// RFC 5666 §12).
var netids = [...][2]string{TCP: {"tcp", "tcp6"}, RDMA: {"rdma", "rdma6"}}

// netid returns the transport's netid for an address.
func (t Transport) netid(a netip.Addr) string {
	if a.Is4() {
		return netids[t][0]
	}
	return netids[t][1]
}

// errUniversal means that a text is not a universal address of IP and port.
var errUniversal = errors.New("rpcbind: not a universal address")

// universal returns the universal address of a: the IP address and the two bytes of the
// port, separated by dots (RFC 5665 §5.2.3.3, §5.2.3.4). It omits a zone, which has no
// meaning on another machine.
func universal(a netip.AddrPort) string {
	b := a.Addr().WithZone("").AppendTo(nil)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(a.Port()>>8), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(a.Port()&0xff), 10)
	return string(b)
}

// parseUniversal parses a universal address of IP and port.
func parseUniversal(s string) (netip.AddrPort, error) {
	host, low, ok := cutLast(s)
	if !ok {
		return netip.AddrPort{}, errUniversal
	}
	host, high, ok := cutLast(host)
	if !ok {
		return netip.AddrPort{}, errUniversal
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return netip.AddrPort{}, errUniversal
	}
	h, errHigh := strconv.ParseUint(high, 10, 8)
	l, errLow := strconv.ParseUint(low, 10, 8)
	if errHigh != nil || errLow != nil {
		return netip.AddrPort{}, errUniversal
	}
	return netip.AddrPortFrom(addr, uint16(h)<<8|uint16(l)), nil
}

// cutLast cuts s at its last dot.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
