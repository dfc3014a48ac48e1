package loglimit

import (
	"log/slog"
	"net"
	"net/netip"
)

// maxName limits a peer's name, in bytes. Longer names are cut.
const maxName = 64

// host returns the name under which a peer is counted: its address without the port.
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
