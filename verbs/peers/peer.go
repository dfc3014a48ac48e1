package peers

import "net/netip"

// PrefixV6 is what one host or site has of IPv6 at least: more addresses than any limit.
const PrefixV6 = 64

// Of is the peer that an address belongs to: an IPv4 address, or the first
// address of an IPv6 /64. IPv4-mapped IPv6 is IPv4.
func Of(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(PrefixV6); err == nil {
			a = p.Addr()
		}
	}
	return a
}
