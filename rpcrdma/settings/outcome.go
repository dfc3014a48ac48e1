package settings

import (
	"slices"
	"strings"
)

// Outcome is the effect of a change on a connection.
type Outcome uint8

// The outcomes, from strongest to weakest.
const (
	Applied          Outcome = iota // in effect from now on
	PendingReconnect                // in effect on the peer's next connection
	Unsupported                     // not possible; the reason says why
)

// targetDecides is why Answering settings have no effect on a connector's connections.
const targetDecides = "the target of a connector decides on that"

// Fold returns the effect on a connection of changing some keys: the weakest outcome of all
// keys, with their reasons.
func Fold(keys KeySet, now, atConnect *Settings, peer *Peer) (Outcome, string) {
	worst := Applied
	var said reasons
	for _, k := range keys.Keys() {
		o, why := rows[k].outcome(now, atConnect, peer)
		worst = max(worst, o)
		if why != "" {
			said.add(rows[k].Name, why)
		}
	}
	return worst, said.String()
}

func (r *Row) outcome(now, atConnect *Settings, peer *Peer) (Outcome, string) {
	switch {
	case r.Answering && peer.Target:
		return Unsupported, targetDecides
	case r.Outcome == nil:
		return Applied, ""
	}
	return r.Outcome(now, atConnect, peer)
}

// AskPeers reports whether the effect of changing these keys may depend on the peer.
func (s KeySet) AskPeers() bool {
	return slices.ContainsFunc(s.Keys(), func(k Key) bool { return rows[k].Outcome != nil })
}

// reasons are the reasons of some keys. Keys with the same reason share it.
type reasons []struct{ keys, why string }

func (r *reasons) add(key, why string) {
	for i := range *r {
		if said := &(*r)[i]; said.why == why {
			said.keys += ", " + key
			return
		}
	}
	*r = append(*r, struct{ keys, why string }{key, why})
}

func (r reasons) String() string {
	parts := make([]string, len(r))
	for i, said := range r {
		parts[i] = said.keys + ": " + said.why
	}
	return strings.Join(parts, "; ")
}
