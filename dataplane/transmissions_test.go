package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// What becomes of extensions.xmit and extensions.continuation, whoever made the
// connection.
func TestTransmissionsOutcome(t *testing.T) {
	const all = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse | rpcrdma2.RTRContinue
	with := func(c told) limits {
		return limits{version: 2, agreed: true, bound: 4096, receive: 4096, receives: 4096, told: c}
	}
	for _, c := range []struct {
		name   string
		keys   Keys
		peer   limits
		off    bool
		want   Outcome
		reason string
	}{
		{name: "both take them", keys: KeyExtensionXmit | KeyExtensionContinuation, peer: with(told{spoken: true, rtr: all}), want: Applied},
		{name: "the peer continues nothing", keys: KeyExtensionXmit | KeyExtensionContinuation, peer: with(told{spoken: true, rtr: all &^ rpcrdma2.RTRContinue}), want: Applied,
			reason: "extensions.continuation: in use when the peer tells that it takes them"},
		{name: "the peer takes none", keys: KeyExtensionXmit, peer: with(told{spoken: true}), want: Applied,
			reason: "extensions.xmit: in use when the peer tells that it takes them"},
		{name: "not told yet", keys: KeyExtensionXmit, peer: with(told{}), want: Applied,
			reason: "extensions.xmit: in use once both ends have announced that they take them"},
		{name: "without characteristics", keys: KeyExtensionContinuation, peer: with(told{lacks: true}), want: Unsupported,
			reason: "extensions.continuation: the peer has no characteristics, which would tell that it takes them"},
		{name: "version 1", keys: KeyExtensionXmit, peer: limits{version: 1, agreed: true}, want: PendingReconnect,
			reason: "extensions.xmit: the connection speaks version 1"},
		{name: "off", keys: KeyExtensionContinuation, peer: with(told{spoken: true, rtr: all}), off: true, want: Applied,
			reason: "extensions.continuation: those of the peer are taken until it reconnects"},
		{name: "off, never in use", keys: KeyExtensionContinuation, peer: with(told{spoken: true}), off: true, want: Applied},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := rpcrdma.DefaultSettings()
			now.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics
			if !c.off {
				now.Extensions |= rpcrdma.ExtXmit | rpcrdma.ExtContinuation
			}
			atConnect := rpcrdma.DefaultSettings()
			if o, reason := outcome(c.keys, &now, &atConnect, c.peer); o != c.want || reason != c.reason {
				t.Errorf("%v %q, want %v %q", o, reason, c.want, c.reason)
			}
			if o, reason := connectorOutcome(c.keys, &now, &atConnect, c.peer); o != c.want || reason != c.reason {
				t.Errorf("of a connector: %v %q, want %v %q", o, reason, c.want, c.reason)
			}
		})
	}
}
