package loglimit

import (
	"log/slog"
	"net"
	"net/netip"
)

// maxName is how much of a peer's name is kept, in bytes.
const maxName = 64

// host is the name that a peer is counted under: its address without the port.
func host(v slog.Value) string {
	name := v.Resolve().String()
	if at, err := netip.ParseAddrPort(name); err == nil {
		return at.Addr().Unmap().WithZone("").String()
	}
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	return name[:min(len(name), maxName)]
}
