package connlimit

import (
	"net/netip"

	"github.com/rdmad/rdmad/verbs/peers"
)

// Key identifies a peer for the limit per key. The zero Key is a normal key.
type Key struct {
	addr netip.Addr
	name string
}

// Address returns the key of a peer's address.
func Address(a netip.Addr) Key { return Key{addr: peers.Of(a)} }

// Name returns the key of a user or a certificate.
func Name(s string) Key { return Key{name: s} }

// String returns the address or the name.
func (k Key) String() string {
	if k.addr.IsValid() {
		if k.addr.Is6() {
			return netip.PrefixFrom(k.addr, peers.PrefixV6).String()
		}
		return k.addr.String()
	}
	return k.name
}
