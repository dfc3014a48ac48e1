package trace

import (
	"net/netip"
	"slices"
)

// Filter says which connections to see; what is empty matches all.
type Filter struct {
	Connections []string // ids
	Listener    string
	Peer        netip.Prefix
}

// Match says whether a connection is to be seen.
func (f *Filter) Match(i *Info) bool {
	return (len(f.Connections) == 0 || slices.Contains(f.Connections, i.ID)) &&
		(f.Listener == "" || f.Listener == i.Listener) &&
		(!f.Peer.IsValid() || f.Peer.Contains(i.Peer.Addr().WithZone(""))) // with a zone no prefix matches
}
