package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
)

// What becomes of settings that a peer with characteristics is told of, and of
// the extension itself.
func TestCharacteristicsOutcome(t *testing.T) {
	two := limits{version: 2, agreed: true, bound: 4096, receive: 4096, receives: 4096}
	with := func(t told) limits {
		l := two
		l.told = t
		l.told.receives = 8192
		return l
	}
	spoken, asks := with(told{spoken: true}), with(told{spoken: true, asks: true, invalidation: true})
	size := func(n uint32) func(*rpcrdma.Settings) {
		return func(s *rpcrdma.Settings) { s.InlineReceiveSize = n }
	}
	for _, c := range []struct {
		name   string
		keys   Keys
		peer   limits
		change func(*rpcrdma.Settings)
		off    bool // the extension
		want   Outcome
		reason string
	}{
		{name: "raised", keys: KeyInlineReceiveSize, peer: spoken, change: size(65536), want: Applied,
			reason: "inline.receive_size: larger receives are posted; their size is announced when the last receive of 8192 bytes is used up"},
		{name: "lowered", keys: KeyInlineReceiveSize, peer: asks, change: size(4096), want: Applied,
			reason: "inline.receive_size: receives have 8192 bytes until the peer asks for smaller ones, as rdmad has requested"},
		{name: "lowered, and nobody asks", keys: KeyInlineReceiveSize, peer: spoken, change: size(4096), want: PendingReconnect,
			reason: "inline.receive_size: receives have 8192 bytes until the peer asks for less"},
		{name: "as it is", keys: KeyInlineReceiveSize, peer: asks, change: size(8192), want: Applied},
		{name: "raised without", keys: KeyInlineReceiveSize, peer: two, change: size(8192), want: PendingReconnect,
			reason: "inline.receive_size: it is fixed at connect for a peer without characteristics, 4096 bytes here"},
		{name: "raised, off", keys: KeyInlineReceiveSize, peer: spoken, change: size(16384), off: true, want: PendingReconnect,
			reason: "inline.receive_size: without extensions.characteristics it is fixed at connect, 4096 bytes here"},
		{name: "accept", keys: KeyRemoteInvalidationAccept, peer: spoken, want: Applied,
			change: func(s *rpcrdma.Settings) { s.RemoteInvalidationAccept = false }},
		{name: "use", keys: KeyRemoteInvalidationUse, peer: asks, want: Applied},
		{name: "use, not accepted", keys: KeyRemoteInvalidationUse, peer: spoken, want: Applied,
			reason: "remote_invalidation.use: the peer tells that it accepts none now"},
		{name: "send_max", keys: KeyInlineSendMax, peer: spoken, want: Applied,
			change: func(s *rpcrdma.Settings) { s.InlineSendMax = 16384 }, reason: "inline.send_max: the peer receives at most 4096 bytes"},
		{name: "on", keys: KeyExtensionCharacteristics, peer: spoken, want: Applied},
		{name: "on, not begun", keys: KeyExtensionCharacteristics, peer: two, want: Applied,
			reason: "extensions.characteristics: in force when the requester begins to tell"},
		{name: "on, refused", keys: KeyExtensionCharacteristics, peer: with(told{lacks: true}), want: PendingReconnect,
			reason: "extensions.characteristics: the peer said that it does not have them, or has them off"},
		{name: "on, version 1", keys: KeyExtensionCharacteristics, peer: limits{version: 1, agreed: true}, want: PendingReconnect,
			reason: "extensions.characteristics: the connection speaks version 1"},
		{name: "off", keys: KeyExtensionCharacteristics, peer: spoken, off: true, want: Applied,
			reason: "extensions.characteristics: what was told holds, and the peer may still tell"},
		{name: "off, never on", keys: KeyExtensionCharacteristics, peer: two, off: true, want: Applied},
	} {
		at := rpcrdma.DefaultSettings()
		at.Extensions |= rpcrdma.ExtV2
		now := at
		if !c.off {
			now.Extensions |= rpcrdma.ExtCharacteristics
		}
		if c.change != nil {
			c.change(&now)
		}
		for role, fold := range map[string]func(Keys, *rpcrdma.Settings, *rpcrdma.Settings, limits) (Outcome, string){
			"server": outcome, "connector": connectorOutcome,
		} {
			if role == "connector" && c.keys == KeyRemoteInvalidationUse {
				continue // the target's
			}
			if got, reason := fold(c.keys, &now, &at, c.peer); got != c.want || reason != c.reason {
				t.Errorf("%s, %s: %d %q, want %d %q", c.name, role, got, reason, c.want, c.reason)
			}
		}
	}
}
