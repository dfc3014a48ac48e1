package trace

import (
	"net/netip"
	"slices"
)

// Filter selects connections. Empty fields match all.
type Filter struct {
	Connections []string // ids
	Listener    string
	Peer        netip.Prefix
}

// Match reports whether the filter selects a connection.
func (f *Filter) Match(i *Info) bool {
	return (len(f.Connections) == 0 || slices.Contains(f.Connections, i.ID)) &&
		(f.Listener == "" || f.Listener == i.Listener) &&
		(!f.Peer.IsValid() || f.Peer.Contains(i.Peer.Addr().WithZone(""))) // no prefix matches an address with a zone
}
