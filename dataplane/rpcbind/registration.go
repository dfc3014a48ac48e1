package rpcbind

import (
	"fmt"
	"net/netip"
)

// Registration is the address of a version of a program.
type Registration struct {
	Program, Version uint32
	Transport        Transport
	// Address is the bound address. On [::] a service also answers IPv4, so it is
	// registered for both.
	Address netip.AddrPort
}

// entry is an entry that rpcbind must have, and its state.
type entry struct {
	mapping
	bound      netip.AddrPort
	registered bool   // rpcbind had it when last asked
	problem    string // the last logged reason why not
}

// same reports whether m is for the same program, version and transport.
func (e *entry) same(m *mapping) bool {
	return m.program == e.program && m.version == e.version && m.netid == e.netid
}

// String returns the entry's name for messages.
func (e *entry) String() string {
	return fmt.Sprintf("program %d version %d on %s", e.program, e.version, e.netid)
}

// entries returns the entries for the registrations, each once. It returns an error if two
// need different addresses for the same program, version and transport.
func entries(list []Registration, owner string) ([]entry, error) {
	var all []entry
	for _, r := range list {
		for _, addr := range families(r.Address) {
			var err error
			e := entry{bound: addr, mapping: mapping{
				program: r.Program,
				version: r.Version,
				netid:   r.Transport.netid(addr.Addr()),
				address: universal(addr),
				owner:   owner,
			}}
			if all, err = add(all, e); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// families splits an address into one for each address family.
func families(a netip.AddrPort) []netip.AddrPort {
	addr := a.Addr().Unmap()
	out := []netip.AddrPort{netip.AddrPortFrom(addr, a.Port())}
	if addr == netip.IPv6Unspecified() {
		out = append(out, netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()))
	}
	return out
}

func add(all []entry, e entry) ([]entry, error) {
	for i := range all {
		if !all[i].same(&e.mapping) {
			continue
		}
		if all[i].address == e.address {
			return all, nil
		}
		return nil, fmt.Errorf("rpcbind: %v is to be at %v and at %v, but rpcbind holds one address for it: register one of the two",
			&e, all[i].bound, e.bound)
	}
	return append(all, e), nil
}
