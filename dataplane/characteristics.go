package dataplane

import (
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// told is what the ends of a connection told each other as characteristics.
type told struct {
	spoken       bool // the peer has the extension
	lacks        bool // it said that it does not
	asks         bool // it asks for smaller receives when told to
	invalidation bool // its STags may be invalidated
	receives     uint32
	rtr          rpcrdma2.RTR
	// Both have receives with target segments, and told so.
	ownTargets, targets bool
}

func toldOf(c *rpcrdma.Characteristics) told {
	return told{
		spoken: c.Spoken, lacks: c.Lacks, asks: c.Asks,
		invalidation: c.Peer.Invalidation, receives: c.Own.ReceiveSize, rtr: c.Peer.RTR,
		ownTargets: len(c.Own.Buffer.Groups) > 0, targets: len(c.Peer.Buffer.Groups) > 0,
	}
}

// toldOutcome notes what becomes of settings that a peer with characteristics is
// told of on the connection.
func toldOutcome(keys Keys, now *rpcrdma.Settings, c told, note func(o Outcome, format string, args ...any)) {
	if keys.Has(KeyInlineReceiveSize) {
		switch want, has := now.Receives(), c.receives; {
		case want > has:
			note(Applied, "inline.receive_size: larger receives are posted; their size is announced when the last receive of %d bytes is used up", has)
		case want < has && c.asks:
			note(Applied, "inline.receive_size: receives have %d bytes until the peer asks for smaller ones, as rdmad has requested", has)
		case want < has:
			note(PendingReconnect, "inline.receive_size: receives have %d bytes until the peer asks for less", has)
		}
	}
	if keys.Has(KeyRemoteInvalidationUse) && now.RemoteInvalidationUse && !c.invalidation {
		note(Applied, "remote_invalidation.use: the peer tells that it accepts none now")
	}
}

// characteristicsOutcome notes what becomes of extensions.characteristics.
func characteristicsOutcome(now *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	c := &peer.told
	switch on := now.Extensions.Has(rpcrdma.ExtCharacteristics); {
	case on && peer.agreed && peer.version != 2:
		note(PendingReconnect, "extensions.characteristics: the connection speaks version 1")
	case on && c.lacks:
		note(PendingReconnect, "extensions.characteristics: the peer said that it does not have them, or has them off")
	case on && !c.spoken:
		note(Applied, "extensions.characteristics: in force when the requester begins to tell")
	case !on && c.spoken:
		note(Applied, "extensions.characteristics: what was told holds, and the peer may still tell")
	}
}
