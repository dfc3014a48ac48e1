package settings

import "strings"

// Outcome says what a change did to a connection.
type Outcome uint8

// The outcomes, from the strongest to the weakest.
const (
	Applied          Outcome = iota // in force from now on
	PendingReconnect                // from the peer's next connection on
	Unsupported                     // can't be; the reason says why
)

// targetDecides is why Answering settings do nothing on a connector's
// connections.
const targetDecides = "the target of a connector decides on that"

// Fold is what becomes of a connection for which some keys were changed: the
// weakest outcome of them all, with the reasons of those that have one.
func Fold(keys KeySet, now, atConnect *Settings, peer *Peer) (Outcome, string) {
	worst := Applied
	var said reasons
	for k := range NumKeys {
		if !keys.Has(k) {
			continue
		}
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

// AskPeers says whether what becomes of some of the keys may depend on the peer.
func (s KeySet) AskPeers() bool {
	for k := range NumKeys {
		if s.Has(k) && rows[k].Outcome != nil {
			return true
		}
	}
	return false
}

// reasons are those of some keys; keys that have the same share it.
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
	if len(r) == 0 {
		return ""
	}
	parts := make([]string, len(r))
	for i, said := range r {
		parts[i] = said.keys + ": " + said.why
	}
	return strings.Join(parts, "; ")
}
