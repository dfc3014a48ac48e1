package dataplane

import (
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// transmissions are the extensions that a peer's RTR Support tells of.
var transmissions = [...]struct {
	key  Keys
	ext  rpcrdma.Extensions
	bits rpcrdma2.RTR
}{
	{KeyExtensionXmit, rpcrdma.ExtXmit, rpcrdma2.RTRRequest | rpcrdma2.RTRResponse},
	{KeyExtensionContinuation, rpcrdma.ExtContinuation, rpcrdma2.RTRContinue},
}

// transmissionsOutcome notes what becomes of them, in either role.
func transmissionsOutcome(keys Keys, now *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	c := &peer.told
	for i := range transmissions {
		t := &transmissions[i]
		if !keys.Has(t.key) {
			continue
		}
		switch on := now.Extensions.Has(t.ext); {
		case on && peer.agreed && peer.version != 2:
			note(PendingReconnect, "%v: the connection speaks version 1", t.key)
		case on && c.lacks:
			note(Unsupported, "%v: the peer has no characteristics, which would tell that it takes them", t.key)
		case on && c.spoken && c.rtr&t.bits != t.bits:
			note(Applied, "%v: in use when the peer tells that it takes them", t.key)
		case on && !c.spoken:
			note(Applied, "%v: in use once both ends have announced that they take them", t.key)
		case !on && c.spoken && c.rtr&t.bits == t.bits:
			note(Applied, "%v: those of the peer are taken until it reconnects", t.key)
		}
	}
}
