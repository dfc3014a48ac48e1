package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
)

func TestConnectorOutcome(t *testing.T) {
	peer := limits{bound: 4096, receive: 65536}
	for _, c := range []struct {
		name    string
		keys    Keys
		change  func(*rpcrdma.Settings)
		outcome Outcome
		reason  string
	}{
		{"at once", KeyDDPMinChunk | KeyCreditsMax, func(s *rpcrdma.Settings) { s.CreditsMax = 8 }, Applied, ""},
		{"more than was told", KeyInlineSendMax, func(s *rpcrdma.Settings) { s.InlineSendMax = 8192 }, PendingReconnect,
			"inline.send_max: 4096 bytes were announced to the peer at connect"},
		{"larger receives", KeyInlineReceiveSize, func(s *rpcrdma.Settings) { s.InlineReceiveSize = 8192 }, PendingReconnect,
			"inline.receive_size: version 1 fixes it at connect, 4096 bytes here"},
		{"the target's", KeyCreditsPolicy | KeyRemoteInvalidationUse, func(*rpcrdma.Settings) {}, Unsupported,
			"remote_invalidation.use, credits.policy: the target of a connector decides on that"},
		{"both", KeyCreditsWeight | KeyInlineReceiveSize, func(s *rpcrdma.Settings) { s.InlineReceiveSize = 8192 }, Unsupported,
			"inline.receive_size: version 1 fixes it at connect, 4096 bytes here; credits.weight: the target of a connector decides on that"},
		{"padding", KeyExtensionMSGP, func(s *rpcrdma.Settings) { s.Extensions |= rpcrdma.ExtMSGP }, Applied,
			"extensions.msgp: a target that takes no RDMA_MSGP fails on padded calls"},
		{"no padding", KeyExtensionMSGP, func(*rpcrdma.Settings) {}, Applied, ""},
		{"replies that are read", KeyExtensionReadReplies, func(s *rpcrdma.Settings) { s.Extensions |= rpcrdma.ExtReadReplies }, PendingReconnect,
			"extensions.read_replies: rdmad announces at connect whether it reads replies"},
		{"configuration", KeyExtensionCCP, func(s *rpcrdma.Settings) { s.Extensions |= rpcrdma.ExtCCP }, PendingReconnect,
			"extensions.ccp: the target is asked at connect"},
		{"no configuration", KeyExtensionCCP, func(*rpcrdma.Settings) {}, Applied, ""},
		{"callbacks", KeyExtensionBackchannel, func(s *rpcrdma.Settings) { s.Extensions |= rpcrdma.ExtBackchannel }, Applied, ""},
		{"callbacks without credits", KeyExtensionBackchannel, func(s *rpcrdma.Settings) {
			s.Extensions |= rpcrdma.ExtBackchannel
			s.CreditsBackchannel = 0
		}, Applied, "extensions.backchannel: no calls of the target while credits.backchannel is 0"},
		{"credits without callbacks", KeyCreditsBackchannel, func(s *rpcrdma.Settings) { s.Extensions = 0 }, Applied,
			"credits.backchannel: counts while extensions.backchannel is on; it is off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			atConnect := rpcrdma.DefaultSettings()
			now := atConnect
			c.change(&now)
			if o, reason := connectorOutcome(c.keys, &now, &atConnect, peer); o != c.outcome || reason != c.reason {
				t.Errorf("%v, %q; want %v, %q", o, reason, c.outcome, c.reason)
			}
		})
	}
}

// A device without memory windows has nothing to be invalidated.
func TestConnectorOutcomeWithoutWindows(t *testing.T) {
	device := limits{bound: 4096, receive: 65536, device: "siw0", noWindows: true}
	atConnect := rpcrdma.DefaultSettings()
	const reason = "remote_invalidation.accept: device siw0 has no memory windows, and what it registers can't be invalidated"
	if o, text := connectorOutcome(KeyRemoteInvalidationAccept|KeyDDPMinChunk, &atConnect, &atConnect, device); o != Unsupported || text != reason {
		t.Errorf("on: %v, %q", o, text)
	}
	now := atConnect
	now.RemoteInvalidationAccept = false
	if o, text := connectorOutcome(KeyRemoteInvalidationAccept, &now, &atConnect, device); o != PendingReconnect {
		t.Errorf("off: %v, %q", o, text)
	}
}
