package settings

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// with is the default settings with extensions.v2 off, on or required.
func with(v2 string) Settings {
	s := Default()
	switch v2 {
	case "on":
		s.Extensions |= ExtV2
	case "required":
		s.Extensions |= ExtV2Only
	}
	return s
}

// What becomes of extensions.v2 on connections that peers made.
func TestVersion2Outcome(t *testing.T) {
	one, two := Peer{Version: 1, Agreed: true, Receives: 4096}, Peer{Version: 2, Agreed: true, Receives: 4096}
	fresh, small := Peer{Version: 1, Receives: 4096}, Peer{Version: 1, Receives: 1024}
	chose1 := "extensions.v2: the peer's first call chose version 1, for as long as the connection lives"
	chose2 := "extensions.v2: the peer's first call chose version 2, for as long as the connection lives"
	tooSmall := "extensions.v2: version 2 needs receives of 4096 bytes, this connection's have 1024; the next will have them"
	for _, c := range []struct {
		name   string
		peer   Peer
		now    string
		want   Outcome
		reason string
	}{
		{"version 1", one, "off", Applied, ""},
		{"version 1", one, "on", PendingReconnect, chose1},
		{"version 1", one, "required", PendingReconnect, chose1},
		{"version 2", two, "off", PendingReconnect, chose2},
		{"version 2", two, "on", Applied, ""},
		{"version 2", two, "required", Applied, ""},
		{"no call yet", fresh, "off", Applied, ""},
		{"no call yet", fresh, "on", Applied, ""},
		{"no call yet", fresh, "required", Applied, ""},
		{"small receives", small, "off", Applied, ""},
		{"small receives", small, "on", Unsupported, tooSmall},
		{"small receives", small, "required", Unsupported, tooSmall},
	} {
		now, at := with(c.now), Default()
		if got, reason := outcome(of(ExtensionV2), &now, &at, c.peer); got != c.want || reason != c.reason {
			t.Errorf("%s, %s: %d %q, want %d %q", c.name, c.now, got, reason, c.want, c.reason)
		}
	}
}

// The same on connections that a connector made, which offered something.
func TestConnectorVersion2Outcome(t *testing.T) {
	one, two, asked := Peer{Version: 1, Agreed: true}, Peer{Version: 2, Agreed: true}, Peer{Version: 2}
	offered := "extensions.v2: the target is offered version 2 at connect"
	holds := "extensions.v2: what the target was offered at connect holds until it answers"
	for _, c := range []struct {
		at, now string
		peer    Peer
		want    Outcome
		reason  string
	}{
		{"off", "off", one, Applied, ""},
		{"off", "on", one, PendingReconnect, offered},
		{"off", "required", one, PendingReconnect, "extensions.v2: version 1 is agreed on, for as long as the connection lives"},
		{"on", "on", one, Applied, ""}, // the target has no version 2
		{"on", "required", one, PendingReconnect, "extensions.v2: version 1 is agreed on, for as long as the connection lives"},
		{"on", "off", one, Applied, ""},
		{"on", "required", two, Applied, ""},
		{"on", "off", two, PendingReconnect, "extensions.v2: version 2 is agreed on, for as long as the connection lives"},
		{"required", "on", two, Applied, ""},
		{"on", "off", asked, PendingReconnect, holds},
		{"on", "required", asked, PendingReconnect, holds},
		{"required", "on", asked, PendingReconnect, holds},
		{"on", "on", asked, Applied, ""},
	} {
		now, at := with(c.now), with(c.at)
		if got, reason := connectorOutcome(of(ExtensionV2), &now, &at, c.peer); got != c.want || reason != c.reason {
			t.Errorf("%s to %s, %+v: %d %q, want %d %q", c.at, c.now, c.peer, got, reason, c.want, c.reason)
		}
	}
}

// What becomes of extensions.send_ddp, whoever made the connection.
func TestPlacementOutcome(t *testing.T) {
	with := func(receives uint32, c Told) Peer {
		return Peer{Version: 2, Agreed: true, Bound: 8192, Receive: 8192, Receives: receives, Told: c}
	}
	for name, c := range map[string]struct {
		peer   Peer
		off    bool
		want   Outcome
		reason string
	}{
		"both have targets": {peer: with(8192, Told{Spoken: true, OwnTargets: true, Targets: true}), want: Applied},
		"the peer has none": {peer: with(8192, Told{Spoken: true, OwnTargets: true}), want: Applied,
			reason: "extensions.send_ddp: the peer has announced no target segments; it may place items in ours"},
		"our receives are small": {peer: with(4096, Told{Spoken: true, Targets: true}), want: Applied,
			reason: "extensions.send_ddp: receives need 5120 bytes for a target segment, and have 4096"},
		"not told yet": {peer: with(8192, Told{}), want: Applied,
			reason: "extensions.send_ddp: in use once both ends have announced their target segments"},
		"without characteristics": {peer: with(8192, Told{Lacks: true}), want: Unsupported,
			reason: "extensions.send_ddp: the peer has no characteristics, so it cannot announce target segments"},
		"version 1": {peer: Peer{Version: 1, Agreed: true}, want: PendingReconnect,
			reason: "extensions.send_ddp: the connection speaks version 1"},
		"off": {peer: with(8192, Told{Spoken: true, OwnTargets: true, Targets: true}), off: true, want: Applied,
			reason: "extensions.send_ddp: items that the peer places before it learns of this are still taken"},
		"off, never in use": {peer: with(8192, Told{Spoken: true, Targets: true}), off: true, want: Applied},
	} {
		t.Run(name, func(t *testing.T) {
			now := Default()
			now.Extensions |= ExtV2 | ExtCharacteristics | ExtXmit
			if !c.off {
				now.Extensions |= ExtSendDDP
			}
			atConnect := Default()
			if o, reason := outcome(of(ExtensionSendDDP), &now, &atConnect, c.peer); o != c.want || reason != c.reason {
				t.Errorf("%v %q, want %v %q", o, reason, c.want, c.reason)
			}
			if o, reason := connectorOutcome(of(ExtensionSendDDP), &now, &atConnect, c.peer); o != c.want || reason != c.reason {
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
	with := func(receives uint32, c Told) Peer {
		return Peer{Version: 2, Agreed: true, Bound: 8192, Receive: 8192, Receives: receives, Told: c}
	}
	for name, c := range map[string]struct {
		peer   Peer
		off    bool
		want   Outcome
		reason string
	}{
		"in use": {peer: with(8192, Told{Spoken: true, OwnTargets: true}), want: Applied},
		"off": {peer: with(8192, Told{Spoken: true}), off: true, want: Applied,
			reason: "ddp.placement: has no effect while extensions.send_ddp is off"},
		"our receives are small": {peer: with(4096, Told{Spoken: true}), want: Applied,
			reason: "ddp.placement: receives need 5120 bytes for a target segment, and have 4096"},
		"without characteristics": {peer: with(8192, Told{Lacks: true}), want: Unsupported,
			reason: "ddp.placement: the peer has no characteristics, so it cannot announce target segments"},
		"version 1": {peer: Peer{Version: 1, Agreed: true}, want: PendingReconnect,
			reason: "ddp.placement: the connection speaks version 1"},
	} {
		now := Default()
		if now.Placement = PlaceChosen; !c.off {
			now.Extensions |= ExtV2 | ExtCharacteristics | ExtXmit | ExtSendDDP
		}
		atConnect := Default()
		if o, reason := connectorOutcome(of(DDPPlacement), &now, &atConnect, c.peer); o != c.want || reason != c.reason {
			t.Errorf("%s: %v %q, want %v %q", name, o, reason, c.want, c.reason)
		}
		const theirs = "ddp.placement: has no effect at a listener, where the client decides how results are placed"
		if o, reason := outcome(of(DDPPlacement), &now, &atConnect, c.peer); o != Unsupported || reason != theirs {
			t.Errorf("%s, of a listener: %v %q", name, o, reason)
		}
	}
}

// What becomes of settings that a peer with characteristics is told of, and of
// the extension itself.
func TestCharacteristicsOutcome(t *testing.T) {
	two := Peer{Version: 2, Agreed: true, Bound: 4096, Receive: 4096, Receives: 4096}
	with := func(t Told) Peer {
		l := two
		l.Told = t
		l.Told.Receives = 8192
		return l
	}
	spoken, asks := with(Told{Spoken: true}), with(Told{Spoken: true, Asks: true, Invalidation: true})
	size := func(n uint32) func(*Settings) {
		return func(s *Settings) { s.InlineReceiveSize = n }
	}
	for _, c := range []struct {
		name   string
		keys   KeySet
		peer   Peer
		change func(*Settings)
		off    bool // the extension
		want   Outcome
		reason string
	}{
		{name: "raised", keys: of(InlineReceiveSize), peer: spoken, change: size(65536), want: Applied,
			reason: "inline.receive_size: larger receives are posted; their size is announced when the last receive of 8192 bytes is used up"},
		{name: "lowered", keys: of(InlineReceiveSize), peer: asks, change: size(4096), want: Applied,
			reason: "inline.receive_size: receives have 8192 bytes until the peer asks for smaller ones, as rdmad has requested"},
		{name: "lowered, and nobody asks", keys: of(InlineReceiveSize), peer: spoken, change: size(4096), want: PendingReconnect,
			reason: "inline.receive_size: receives have 8192 bytes until the peer asks for less"},
		{name: "as it is", keys: of(InlineReceiveSize), peer: asks, change: size(8192), want: Applied},
		{name: "raised without", keys: of(InlineReceiveSize), peer: two, change: size(8192), want: PendingReconnect,
			reason: "inline.receive_size: it is fixed at connect for a peer without characteristics, 4096 bytes here"},
		{name: "raised, off", keys: of(InlineReceiveSize), peer: spoken, change: size(16384), off: true, want: PendingReconnect,
			reason: "inline.receive_size: without extensions.characteristics it is fixed at connect, 4096 bytes here"},
		{name: "accept", keys: of(RemoteInvalidationAccept), peer: spoken, want: Applied,
			change: func(s *Settings) { s.RemoteInvalidationAccept = false }},
		{name: "use", keys: of(RemoteInvalidationUse), peer: asks, want: Applied},
		{name: "use, not accepted", keys: of(RemoteInvalidationUse), peer: spoken, want: Applied,
			reason: "remote_invalidation.use: the peer announces that it accepts none now"},
		{name: "send_max", keys: of(InlineSendMax), peer: spoken, want: Applied,
			change: func(s *Settings) { s.InlineSendMax = 16384 }, reason: "inline.send_max: the peer receives at most 4096 bytes"},
		{name: "on", keys: of(ExtensionCharacteristics), peer: spoken, want: Applied},
		{name: "on, not begun", keys: of(ExtensionCharacteristics), peer: two, want: Applied,
			reason: "extensions.characteristics: in force when the requester begins to tell"},
		{name: "on, refused", keys: of(ExtensionCharacteristics), peer: with(Told{Lacks: true}), want: PendingReconnect,
			reason: "extensions.characteristics: the peer said that it does not have them, or has them off"},
		{name: "on, version 1", keys: of(ExtensionCharacteristics), peer: Peer{Version: 1, Agreed: true}, want: PendingReconnect,
			reason: "extensions.characteristics: the connection speaks version 1"},
		{name: "off", keys: of(ExtensionCharacteristics), peer: spoken, off: true, want: Applied,
			reason: "extensions.characteristics: what was told holds, and the peer may still tell"},
		{name: "off, never on", keys: of(ExtensionCharacteristics), peer: two, off: true, want: Applied},
	} {
		at := Default()
		at.Extensions |= ExtV2
		now := at
		if !c.off {
			now.Extensions |= ExtCharacteristics
		}
		if c.change != nil {
			c.change(&now)
		}
		for role, fold := range map[string]func(KeySet, *Settings, *Settings, Peer) (Outcome, string){
			"server": outcome, "connector": connectorOutcome,
		} {
			if role == "connector" && c.keys == of(RemoteInvalidationUse) {
				continue // the target's
			}
			if got, reason := fold(c.keys, &now, &at, c.peer); got != c.want || reason != c.reason {
				t.Errorf("%s, %s: %d %q, want %d %q", c.name, role, got, reason, c.want, c.reason)
			}
		}
	}
}

// What becomes of extensions.xmit and extensions.continuation, whoever made the
// connection.
func TestTransmissionsOutcome(t *testing.T) {
	const all = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse | rpcrdma2.RTRContinue
	with := func(c Told) Peer {
		return Peer{Version: 2, Agreed: true, Bound: 4096, Receive: 4096, Receives: 4096, Told: c}
	}
	for _, c := range []struct {
		name   string
		keys   KeySet
		peer   Peer
		off    bool
		want   Outcome
		reason string
	}{
		{name: "both take them", keys: of(ExtensionXmit, ExtensionContinuation), peer: with(Told{Spoken: true, RTR: all}), want: Applied},
		{name: "the peer continues nothing", keys: of(ExtensionXmit, ExtensionContinuation), peer: with(Told{Spoken: true, RTR: all &^ rpcrdma2.RTRContinue}), want: Applied,
			reason: "extensions.continuation: in use when the peer tells that it takes them"},
		{name: "the peer takes none", keys: of(ExtensionXmit), peer: with(Told{Spoken: true}), want: Applied,
			reason: "extensions.xmit: in use when the peer tells that it takes them"},
		{name: "not told yet", keys: of(ExtensionXmit), peer: with(Told{}), want: Applied,
			reason: "extensions.xmit: in use once both ends have announced that they take them"},
		{name: "without characteristics", keys: of(ExtensionContinuation), peer: with(Told{Lacks: true}), want: Unsupported,
			reason: "extensions.continuation: the peer has no characteristics, which would tell that it takes them"},
		{name: "version 1", keys: of(ExtensionXmit), peer: Peer{Version: 1, Agreed: true}, want: PendingReconnect,
			reason: "extensions.xmit: the connection speaks version 1"},
		{name: "off", keys: of(ExtensionContinuation), peer: with(Told{Spoken: true, RTR: all}), off: true, want: Applied,
			reason: "extensions.continuation: those of the peer are taken until it reconnects"},
		{name: "off, never in use", keys: of(ExtensionContinuation), peer: with(Told{Spoken: true}), off: true, want: Applied},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := Default()
			now.Extensions |= ExtV2 | ExtCharacteristics
			if !c.off {
				now.Extensions |= ExtXmit | ExtContinuation
			}
			atConnect := Default()
			if o, reason := outcome(c.keys, &now, &atConnect, c.peer); o != c.want || reason != c.reason {
				t.Errorf("%v %q, want %v %q", o, reason, c.want, c.reason)
			}
			if o, reason := connectorOutcome(c.keys, &now, &atConnect, c.peer); o != c.want || reason != c.reason {
				t.Errorf("of a connector: %v %q, want %v %q", o, reason, c.want, c.reason)
			}
		})
	}
}
