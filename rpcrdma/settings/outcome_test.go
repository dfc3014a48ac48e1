package settings

import (
	"testing"
)

// of is a set of keys.
func of(keys ...Key) (set KeySet) {
	for _, k := range keys {
		set = set.With(k)
	}
	return set
}

// outcome is Fold on a connection that a peer made.
func outcome(keys KeySet, now, atConnect *Settings, peer Peer) (Outcome, string) {
	return Fold(keys, now, atConnect, &peer)
}

// connectorOutcome is Fold on a connection that a connector made.
func connectorOutcome(keys KeySet, now, atConnect *Settings, peer Peer) (Outcome, string) {
	peer.Target = true
	return Fold(keys, now, atConnect, &peer)
}

func TestOutcomes(t *testing.T) {
	at := Default()
	kernel := Peer{Bound: 4096, Receive: 4096, Invalidation: true}
	plain := Peer{Bound: 4096, Receive: 4096}
	for _, c := range []struct {
		name   string
		keys   KeySet
		change func(*Settings)
		at     func(*Settings)
		peer   Peer
		want   Outcome
		reason string
	}{
		{name: "send_max", keys: of(InlineSendMax), change: func(s *Settings) { s.InlineSendMax = 1024 }, want: Applied},
		{name: "send_max over the peer's", keys: of(InlineSendMax), change: func(s *Settings) { s.InlineSendMax = 8192 },
			peer: Peer{Bound: 2048, Receive: 2048}, want: Applied, reason: "inline.send_max: the peer receives at most 2048 bytes"},
		{name: "send_max under the peer's", keys: of(InlineSendMax), change: func(s *Settings) { s.InlineSendMax = 1024 },
			peer: Peer{Bound: 2048, Receive: 2048}, want: Applied},
		{name: "send_max over what was told", keys: of(InlineSendMax), change: func(s *Settings) { s.InlineSendMax = 8192 },
			peer: Peer{Bound: 4096, Receive: 16384}, want: PendingReconnect, reason: "inline.send_max: 4096 bytes were announced to the peer at connect"},
		{name: "send_max up to what was told", keys: of(InlineSendMax), peer: Peer{Bound: 4096, Receive: 16384}, want: Applied},
		{name: "receive_size", keys: of(InlineReceiveSize), change: func(s *Settings) { s.InlineReceiveSize = 8192 },
			want: PendingReconnect, reason: "inline.receive_size: version 1 fixes it at connect, 4096 bytes here"},
		{name: "receive_size as it is", keys: of(InlineReceiveSize), want: Applied},
		{name: "receive_size not changed", keys: of(CreditsMax), change: func(s *Settings) { s.InlineReceiveSize = 8192 }, want: Applied},
		{name: "accept", keys: of(RemoteInvalidationAccept), change: func(s *Settings) { s.RemoteInvalidationAccept = false },
			want: PendingReconnect, reason: "remote_invalidation.accept: version 1 fixes it at connect, on here"},
		{name: "use", keys: of(RemoteInvalidationUse), want: Applied},
		{name: "use, not offered", keys: of(RemoteInvalidationUse), peer: plain,
			want: Unsupported, reason: "remote_invalidation.use: the peer did not offer it"},
		{name: "use, not accepted", keys: of(RemoteInvalidationUse), peer: plain,
			at:   func(s *Settings) { s.RemoteInvalidationAccept = false },
			want: Unsupported, reason: "remote_invalidation.use: remote_invalidation.accept was off at connect"},
		{name: "use, not possible", keys: of(RemoteInvalidationUse), peer: Peer{Bound: 4096, Device: "old0", NoSendInvalidate: true},
			want: Unsupported, reason: "remote_invalidation.use: device old0 has no Send With Invalidate"},
		{name: "accept without windows", keys: of(RemoteInvalidationAccept), peer: Peer{Bound: 4096, Device: "siw0", NoWindows: true}, want: Applied},
		{name: "use off, not offered", keys: of(RemoteInvalidationUse), peer: plain,
			change: func(s *Settings) { s.RemoteInvalidationUse = false }, want: Applied},
		{name: "weight, policy fixed", keys: of(CreditsWeight),
			want: Applied, reason: "credits.weight: counts for memory and processors; for credits only while credits.policy is adaptive, and it is fixed"},
		{name: "weight, policy adaptive", keys: of(CreditsWeight),
			change: func(s *Settings) { s.CreditsPolicy = CreditsAdaptive }, want: Applied},
		{name: "the rest", keys: of(DDPMinChunk, CreditsMax, CreditsMin, CreditsPolicy), want: Applied},
		{name: "msgp on", keys: of(ExtensionMSGP), change: func(s *Settings) { s.Extensions = ExtMSGP },
			want: Applied, reason: "extensions.msgp: the peer has sent no RDMA_MSGP; one that takes none fails on padded replies"},
		{name: "msgp on, peer pads", keys: of(ExtensionMSGP), change: func(s *Settings) { s.Extensions = ExtMSGP },
			peer: Peer{Bound: 4096, Receive: 4096, Pads: true}, want: Applied},
		{name: "msgp off", keys: of(ExtensionMSGP), peer: Peer{Bound: 4096, Receive: 4096, PadTaken: true},
			want: Applied, reason: "extensions.msgp: rdmad sends none, but accepts those of the peer until it reconnects"},
		{name: "msgp as it was", keys: of(ExtensionMSGP), want: Applied},
		{name: "read_replies on", keys: of(ExtensionReadReplies), change: func(s *Settings) { s.Extensions = ExtReadReplies },
			want: Applied, reason: "extensions.read_replies: a peer that does not read such replies fails on them, as it does on the error without"},
		{name: "read_replies off", keys: of(ExtensionReadReplies),
			want: Applied, reason: "extensions.read_replies: replies exposed already may still be read"},
		{name: "ccp on", keys: of(ExtensionCCP), change: func(s *Settings) { s.Extensions = ExtCCP },
			want: PendingReconnect, reason: "extensions.ccp: a client asks when it connects"},
		{name: "ccp on again", keys: of(ExtensionCCP), change: func(s *Settings) { s.Extensions = ExtCCP },
			peer: Peer{Bound: 4096, Receive: 4096, Configured: true}, want: Applied},
		{name: "ccp off", keys: of(ExtensionCCP), peer: Peer{Bound: 4096, Receive: 4096, Configured: true},
			want: PendingReconnect, reason: "extensions.ccp: what the peer announced holds until it reconnects"},
		{name: "backchannel on", keys: of(ExtensionBackchannel), change: func(s *Settings) { s.Extensions = ExtBackchannel },
			want: Applied, reason: "extensions.backchannel: calls to the client wait until the upper layer opens the back channel"},
		{name: "backchannel on, open", keys: of(ExtensionBackchannel), change: func(s *Settings) { s.Extensions = ExtBackchannel },
			peer: Peer{Bound: 4096, Receive: 4096, Callable: true}, want: Applied},
		{name: "backchannel on, no credits", keys: of(ExtensionBackchannel, CreditsBackchannel),
			change: func(s *Settings) { s.Extensions, s.CreditsBackchannel = ExtBackchannel, 0 },
			want:   Applied, reason: "extensions.backchannel: no calls to the client while credits.backchannel is 0"},
		{name: "backchannel off", keys: of(ExtensionBackchannel), change: func(s *Settings) { s.Extensions = 0 }, peer: Peer{Bound: 4096, Receive: 4096, Callable: true},
			want: Applied, reason: "extensions.backchannel: calls to the client that are in flight are finished"},
		{name: "backchannel credits, off", keys: of(CreditsBackchannel), change: func(s *Settings) { s.Extensions = 0 },
			want: Applied, reason: "credits.backchannel: counts while extensions.backchannel is on; it is off"},
		{name: "folded", keys: of(InlineSendMax, InlineReceiveSize, RemoteInvalidationUse),
			change: func(s *Settings) { s.InlineReceiveSize = 1024 }, peer: plain,
			want: Unsupported, reason: "inline.receive_size: version 1 fixes it at connect, 4096 bytes here; " +
				"remote_invalidation.use: the peer did not offer it"},
	} {
		now, then := at, at
		if c.peer == (Peer{}) {
			c.peer = kernel
		}
		if c.change != nil {
			c.change(&now)
		}
		if c.at != nil {
			c.at(&then)
		}
		got, reason := outcome(c.keys, &now, &then, c.peer)
		if got != c.want || reason != c.reason {
			t.Errorf("%s: %d %q, want %d %q", c.name, got, reason, c.want, c.reason)
		}
	}
}

func TestConnectorOutcome(t *testing.T) {
	peer := Peer{Bound: 4096, Receive: 65536}
	for _, c := range []struct {
		name    string
		keys    KeySet
		change  func(*Settings)
		outcome Outcome
		reason  string
	}{
		{"at once", of(DDPMinChunk, CreditsMax), func(s *Settings) { s.CreditsMax = 8 }, Applied, ""},
		{"more than was told", of(InlineSendMax), func(s *Settings) { s.InlineSendMax = 8192 }, PendingReconnect,
			"inline.send_max: 4096 bytes were announced to the peer at connect"},
		{"larger receives", of(InlineReceiveSize), func(s *Settings) { s.InlineReceiveSize = 8192 }, PendingReconnect,
			"inline.receive_size: version 1 fixes it at connect, 4096 bytes here"},
		{"the target's", of(CreditsPolicy, RemoteInvalidationUse), func(*Settings) {}, Unsupported,
			"remote_invalidation.use, credits.policy: the target of a connector decides on that"},
		{"both", of(CreditsWeight, InlineReceiveSize), func(s *Settings) { s.InlineReceiveSize = 8192 }, Unsupported,
			"inline.receive_size: version 1 fixes it at connect, 4096 bytes here; credits.weight: the target of a connector decides on that"},
		{"padding", of(ExtensionMSGP), func(s *Settings) { s.Extensions |= ExtMSGP }, Applied,
			"extensions.msgp: a target that takes no RDMA_MSGP fails on padded calls"},
		{"no padding", of(ExtensionMSGP), func(*Settings) {}, Applied, ""},
		{"replies that are read", of(ExtensionReadReplies), func(s *Settings) { s.Extensions |= ExtReadReplies }, PendingReconnect,
			"extensions.read_replies: rdmad announces at connect whether it reads replies"},
		{"configuration", of(ExtensionCCP), func(s *Settings) { s.Extensions |= ExtCCP }, PendingReconnect,
			"extensions.ccp: rdmad asks the target at connect"},
		{"no configuration", of(ExtensionCCP), func(*Settings) {}, Applied, ""},
		{"callbacks", of(ExtensionBackchannel), func(s *Settings) { s.Extensions |= ExtBackchannel }, Applied, ""},
		{"callbacks without credits", of(ExtensionBackchannel), func(s *Settings) {
			s.Extensions |= ExtBackchannel
			s.CreditsBackchannel = 0
		}, Applied, "extensions.backchannel: no calls of the target while credits.backchannel is 0"},
		{"credits without callbacks", of(CreditsBackchannel), func(s *Settings) { s.Extensions = 0 }, Applied,
			"credits.backchannel: counts while extensions.backchannel is on; it is off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			atConnect := Default()
			now := atConnect
			c.change(&now)
			if o, reason := connectorOutcome(c.keys, &now, &atConnect, peer); o != c.outcome || reason != c.reason {
				t.Errorf("%v, %q; want %v, %q", o, reason, c.outcome, c.reason)
			}
		})
	}
}

// TestReadRepliesOffAtConnector: what was announced at connect stays, but the next calls go
// without.
func TestReadRepliesOffAtConnector(t *testing.T) {
	now, atConnect := Default(), Default()
	atConnect.Extensions |= ExtReadReplies
	const want = "extensions.read_replies: the target may still send such replies until rdmad connects again; their calls fail"
	if o, reason := connectorOutcome(of(ExtensionReadReplies), &now, &atConnect, Peer{}); o != Applied || reason != want {
		t.Errorf("%v, %q; want %q", o, reason, want)
	}
}

// A device without memory windows has nothing to be invalidated.
func TestConnectorOutcomeWithoutWindows(t *testing.T) {
	device := Peer{Bound: 4096, Receive: 65536, Device: "siw0", NoWindows: true}
	atConnect := Default()
	const reason = "remote_invalidation.accept: device siw0 has no memory windows, and what it registers can't be invalidated"
	if o, text := connectorOutcome(of(RemoteInvalidationAccept, DDPMinChunk), &atConnect, &atConnect, device); o != Unsupported || text != reason {
		t.Errorf("on: %v, %q", o, text)
	}
	now := atConnect
	now.RemoteInvalidationAccept = false
	if o, text := connectorOutcome(of(RemoteInvalidationAccept), &now, &atConnect, device); o != PendingReconnect {
		t.Errorf("off: %v, %q", o, text)
	}
}
