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

// CheckParam limits a side's parameters to the device's attributes. room is how much
// private data fits, in bytes.
func (d *Device) CheckParam(p rdmacm.ConnParam, room int) (rdmacm.ConnParam, error) {
	if len(p.PrivateData) > room {
		return p, fmt.Errorf("%d bytes of private data, %d fit: %w", len(p.PrivateData), room, rdmacm.ErrPrivateData)
	}
	p.ResponderResources = min(max(p.ResponderResources, 0), d.Attrs.MaxQPRdAtom)
	p.InitiatorDepth = min(max(p.InitiatorDepth, 0), d.Attrs.MaxQPInitRdAtom)
	return p, nil
}

// Negotiate returns a side's IRD and ORD from its own parameters and the peer's.
func Negotiate(own, peer rdmacm.ConnParam) (ird, ord int) {
	return min(own.ResponderResources, peer.InitiatorDepth), min(own.InitiatorDepth, peer.ResponderResources)
}

// SplitAddress splits host:port.
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

// LookUp resolves host:port. An empty host means any address. It returns the host's first
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
