package connlimit

import "net/netip"

// Key is what a limit per key counts by. The zero Key is a key like others.
type Key struct {
	addr netip.Addr
	name string
}

// prefixV6 is what one host or site has of IPv6 at least: more addresses than any limit.
const prefixV6 = 64

// Address is the key of a peer's address; of IPv6, its /64.
func Address(a netip.Addr) Key {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(prefixV6); err == nil {
			a = p.Addr()
		}
	}
	return Key{addr: a}
}

// Name is the key of a user or a certificate.
func Name(s string) Key { return Key{name: s} }

// String is the address or the name.
func (k Key) String() string {
	if k.addr.IsValid() {
		if k.addr.Is6() {
			return netip.PrefixFrom(k.addr, prefixV6).String()
		}
		return k.addr.String()
	}
	return k.name
}
