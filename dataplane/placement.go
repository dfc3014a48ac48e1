package dataplane

import "github.com/rdmad/rdmad/rpcrdma"

// leastPlaced is the least size of receives with a target segment, in bytes.
const leastPlaced = 5120

// placementOutcome notes what becomes of extensions.send_ddp, in either role.
func placementOutcome(now *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	c := &peer.told
	on := now.Extensions.Has(rpcrdma.ExtSendDDP)
	switch {
	case on && peer.agreed && peer.version != 2:
		note(PendingReconnect, "extensions.send_ddp: the connection speaks version 1")
	case on && c.lacks:
		note(Unsupported, "extensions.send_ddp: the peer has no characteristics, so it cannot announce target segments")
	case on && peer.receives < leastPlaced:
		note(Applied, "extensions.send_ddp: receives need %d bytes for a target segment, and have %d", leastPlaced, peer.receives)
	case on && c.spoken && !c.targets:
		note(Applied, "extensions.send_ddp: the peer has announced no target segments; it may place items in ours")
	case on && !c.spoken:
		note(Applied, "extensions.send_ddp: in use once both ends have announced their target segments")
	case !on && c.ownTargets:
		note(Applied, "extensions.send_ddp: items that the peer places before it learns of this are still taken")
	}
}

// askedOutcome notes what becomes of ddp.placement, where calls are ours.
func askedOutcome(now *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	switch {
	case !now.Extensions.Has(rpcrdma.ExtSendDDP):
		note(Applied, "ddp.placement: has no effect while extensions.send_ddp is off")
	case peer.agreed && peer.version != 2:
		note(PendingReconnect, "ddp.placement: the connection speaks version 1")
	case peer.told.lacks:
		note(Unsupported, "ddp.placement: the peer has no characteristics, so it cannot announce target segments")
	case peer.receives < leastPlaced:
		note(Applied, "ddp.placement: receives need %d bytes for a target segment, and have %d", leastPlaced, peer.receives)
	}
}
