package peers

import "net/netip"

// PrefixV6 is the smallest IPv6 prefix of a host or site. It has more addresses than any
// limit.
const PrefixV6 = 64

// Of returns the peer of an address: an IPv4 address, or the first address of an IPv6 /64.
// IPv4-mapped IPv6 counts as IPv4.
func Of(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(PrefixV6); err == nil {
			a = p.Addr()
		}
	}
	return a
}
