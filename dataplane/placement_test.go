package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
)

// What becomes of extensions.send_ddp, whoever made the connection.
func TestPlacementOutcome(t *testing.T) {
	with := func(receives uint32, c told) limits {
		return limits{version: 2, agreed: true, bound: 8192, receive: 8192, receives: receives, told: c}
	}
	for name, c := range map[string]struct {
		peer   limits
		off    bool
		want   Outcome
		reason string
	}{
		"both have targets": {peer: with(8192, told{spoken: true, ownTargets: true, targets: true}), want: Applied},
		"the peer has none": {peer: with(8192, told{spoken: true, ownTargets: true}), want: Applied,
			reason: "extensions.send_ddp: the peer has announced no target segments; it may place items in ours"},
		"our receives are small": {peer: with(4096, told{spoken: true, targets: true}), want: Applied,
			reason: "extensions.send_ddp: receives need 5120 bytes for a target segment, and have 4096"},
		"not told yet": {peer: with(8192, told{}), want: Applied,
			reason: "extensions.send_ddp: in use once both ends have announced their target segments"},
		"without characteristics": {peer: with(8192, told{lacks: true}), want: Unsupported,
			reason: "extensions.send_ddp: the peer has no characteristics, so it cannot announce target segments"},
		"version 1": {peer: limits{version: 1, agreed: true}, want: PendingReconnect,
			reason: "extensions.send_ddp: the connection speaks version 1"},
		"off": {peer: with(8192, told{spoken: true, ownTargets: true, targets: true}), off: true, want: Applied,
			reason: "extensions.send_ddp: items that the peer places before it learns of this are still taken"},
		"off, never in use": {peer: with(8192, told{spoken: true, targets: true}), off: true, want: Applied},
	} {
		t.Run(name, func(t *testing.T) {
			now := rpcrdma.DefaultSettings()
			now.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit
			if !c.off {
				now.Extensions |= rpcrdma.ExtSendDDP
			}
			atConnect := rpcrdma.DefaultSettings()
			if o, reason := outcome(KeyExtensionSendDDP, &now, &atConnect, c.peer); o != c.want || reason != c.reason {
				t.Errorf("%v %q, want %v %q", o, reason, c.want, c.reason)
			}
			if o, reason := connectorOutcome(KeyExtensionSendDDP, &now, &atConnect, c.peer); o != c.want || reason != c.reason {
				t.Errorf("of a connector: %v %q, want %v %q", o, reason, c.want, c.reason)
			}
		})
	}
	if leastPlaced != placement.LeastSize {
		t.Errorf("receives of %d bytes have a target segment", placement.LeastSize)
	}
}

// What becomes of ddp.placement: it is for calls that are ours.
func TestAskedOutcome(t *testing.T) {
	with := func(receives uint32, c told) limits {
		return limits{version: 2, agreed: true, bound: 8192, receive: 8192, receives: receives, told: c}
	}
	for name, c := range map[string]struct {
		peer   limits
		off    bool
		want   Outcome
		reason string
	}{
		"in use": {peer: with(8192, told{spoken: true, ownTargets: true}), want: Applied},
		"off": {peer: with(8192, told{spoken: true}), off: true, want: Applied,
			reason: "ddp.placement: has no effect while extensions.send_ddp is off"},
		"our receives are small": {peer: with(4096, told{spoken: true}), want: Applied,
			reason: "ddp.placement: receives need 5120 bytes for a target segment, and have 4096"},
		"without characteristics": {peer: with(8192, told{lacks: true}), want: Unsupported,
			reason: "ddp.placement: the peer has no characteristics, so it cannot announce target segments"},
		"version 1": {peer: limits{version: 1, agreed: true}, want: PendingReconnect,
			reason: "ddp.placement: the connection speaks version 1"},
	} {
		now := rpcrdma.DefaultSettings()
		if now.Placement = rpcrdma.PlaceChosen; !c.off {
			now.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit | rpcrdma.ExtSendDDP
		}
		atConnect := rpcrdma.DefaultSettings()
		if o, reason := connectorOutcome(KeyDDPPlacement, &now, &atConnect, c.peer); o != c.want || reason != c.reason {
			t.Errorf("%s: %v %q, want %v %q", name, o, reason, c.want, c.reason)
		}
		const theirs = "ddp.placement: has no effect at a listener, where the client decides how results are placed"
		if o, reason := outcome(KeyDDPPlacement, &now, &atConnect, c.peer); o != Unsupported || reason != theirs {
			t.Errorf("%s, of a listener: %v %q", name, o, reason)
		}
	}
}
