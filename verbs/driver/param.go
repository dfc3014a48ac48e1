package driver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// CheckParam bounds a side's parameters by the device's attributes. room is how much
// private data fits, in bytes.
func (d *Device) CheckParam(p rdmacm.ConnParam, room int) (rdmacm.ConnParam, error) {
	if len(p.PrivateData) > room {
		return p, fmt.Errorf("%d bytes of private data, %d fit: %w", len(p.PrivateData), room, rdmacm.ErrPrivateData)
	}
	p.ResponderResources = min(max(p.ResponderResources, 0), d.Attrs.MaxQPRdAtom)
	p.InitiatorDepth = min(max(p.InitiatorDepth, 0), d.Attrs.MaxQPInitRdAtom)
	return p, nil
}

// Negotiate gives the IRD and ORD in force for a side, from its own parameters and the
// peer's: both bound the Reads.
func Negotiate(own, peer rdmacm.ConnParam) (ird, ord int) {
	return min(own.ResponderResources, peer.InitiatorDepth), min(own.InitiatorDepth, peer.ResponderResources)
}

// SplitAddress takes host:port apart.
func SplitAddress(address string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", verbs.ErrInvalid, err)
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", 0, Invalid(fmt.Sprintf("port %q", service))
	}
	return host, uint16(n), nil
}

// LookUp resolves host:port; an empty host is any address. It takes the host's first
// IPv4 address, or its first address if there is no IPv4 address.
func LookUp(ctx context.Context, address string) (netip.AddrPort, error) {
	host, port, err := SplitAddress(address)
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case host == "":
		return netip.AddrPortFrom(netip.IPv6Unspecified(), port), nil
	}
	if a, err := netip.ParseAddr(host); err == nil { // the resolver loses zones
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	switch {
	case ctx.Err() != nil:
		return netip.AddrPort{}, ctx.Err()
	case err != nil:
		return netip.AddrPort{}, fmt.Errorf("%w: %w", rdmacm.ErrUnreachable, err)
	}
	return netip.AddrPortFrom(preferred(addrs), port), nil
}

func preferred(addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() {
			return a
		}
	}
	return addrs[0]
}
