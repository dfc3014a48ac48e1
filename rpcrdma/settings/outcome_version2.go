package settings

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// leastPlaced is the smallest size of receives with a target segment, in bytes.
const leastPlaced = 5120

// Reasons shared by extensions of version 2.
const (
	speaks1   = "the connection speaks version 1"
	noTargets = "the peer has no characteristics, so it cannot announce target segments"
)

// v2Outcome: a peer that connects to us chooses the version with its first call. A target
// was offered a version at connect.
func v2Outcome(now, atConnect *Settings, p *Peer) (Outcome, string) {
	speaks2 := now.Speaks(2)
	switch {
	case p.Target && p.Agreed && !now.Speaks(p.Version):
		return PendingReconnect, fmt.Sprintf("version %d is agreed on, for as long as the connection lives", p.Version)
	case p.Target && speaks2 && !atConnect.Speaks(2):
		return PendingReconnect, "the target is offered version 2 at connect"
	case p.Target && !p.Agreed && (now.Speaks(1) != atConnect.Speaks(1) || speaks2 != atConnect.Speaks(2)):
		return PendingReconnect, "what the target was offered at connect holds until it answers"
	case p.Target:
	case p.Agreed && (p.Version == 1 && speaks2 || !now.Speaks(p.Version)):
		return PendingReconnect, fmt.Sprintf("the peer's first call chose version %d, for as long as the connection lives", p.Version)
	case !p.Agreed && speaks2 && p.Receives < rpcrdma2.DefaultReceiveSize:
		return Unsupported, fmt.Sprintf("version 2 needs receives of %d bytes, this connection's have %d; the next will have them",
			rpcrdma2.DefaultReceiveSize, p.Receives)
	}
	return Applied, ""
}

// stays1 reports whether the connection speaks version 1 for its whole life.
func (p *Peer) stays1() bool { return p.Agreed && p.Version != 2 }

func characteristicsOutcome(now, _ *Settings, p *Peer) (Outcome, string) {
	switch on := now.Extensions.Has(ExtCharacteristics); {
	case on && p.stays1():
		return PendingReconnect, speaks1
	case on && p.Told.Lacks:
		return PendingReconnect, "the peer said that it does not have them, or has them off"
	case on && !p.Told.Spoken:
		return Applied, "in force when the requester begins to tell"
	case !on && p.Told.Spoken:
		return Applied, "what was told holds, and the peer may still tell"
	}
	return Applied, ""
}

// transmissionOutcome returns the outcome of an extension for which the peer announces
// support with these bits.
func transmissionOutcome(ext Extensions, bits rpcrdma2.RTR) func(now, atConnect *Settings, peer *Peer) (Outcome, string) {
	return func(now, _ *Settings, p *Peer) (Outcome, string) {
		takes := p.Told.RTR&bits == bits
		switch on := now.Extensions.Has(ext); {
		case on && p.stays1():
			return PendingReconnect, speaks1
		case on && p.Told.Lacks:
			return Unsupported, "the peer has no characteristics, which would tell that it takes them"
		case on && p.Told.Spoken && !takes:
			return Applied, "in use when the peer tells that it takes them"
		case on && !p.Told.Spoken:
			return Applied, "in use once both ends have announced that they take them"
		case !on && p.Told.Spoken && takes:
			return Applied, "those of the peer are taken until it reconnects"
		}
		return Applied, ""
	}
}

func sendDDPOutcome(now, _ *Settings, p *Peer) (Outcome, string) {
	switch on := now.Extensions.Has(ExtSendDDP); {
	case on && p.stays1():
		return PendingReconnect, speaks1
	case on && p.Told.Lacks:
		return Unsupported, noTargets
	case on && p.Receives < leastPlaced:
		return Applied, p.smallReceives()
	case on && p.Told.Spoken && !p.Told.Targets:
		return Applied, "the peer has announced no target segments; it may place items in ours"
	case on && !p.Told.Spoken:
		return Applied, "in use once both ends have announced their target segments"
	case !on && p.Told.OwnTargets:
		return Applied, "items that the peer places before it learns of this are still taken"
	}
	return Applied, ""
}

func placementOutcome(now, _ *Settings, p *Peer) (Outcome, string) {
	switch {
	case !p.Target:
		return Unsupported, "has no effect at a listener, where the client decides how results are placed"
	case !now.Extensions.Has(ExtSendDDP):
		return Applied, "has no effect while extensions.send_ddp is off"
	case p.stays1():
		return PendingReconnect, speaks1
	case p.Told.Lacks:
		return Unsupported, noTargets
	case p.Receives < leastPlaced:
		return Applied, p.smallReceives()
	}
	return Applied, ""
}

func (p *Peer) smallReceives() string {
	return fmt.Sprintf("receives need %d bytes for a target segment, and have %d", leastPlaced, p.Receives)
}
