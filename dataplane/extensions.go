package dataplane

import "github.com/rdmad/rdmad/rpcrdma"

// extensionOutcome notes what becomes of the extensions on a connection that a
// peer made to us.
func extensionOutcome(keys Keys, now *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	if keys.Has(KeyExtensionMSGP) {
		switch on := now.Extensions.Has(rpcrdma.ExtMSGP); {
		case on && !peer.pads:
			note(Applied, "extensions.msgp: the peer has sent no RDMA_MSGP; one that takes none fails on padded replies")
		case !on && peer.padTaken:
			note(Applied, "extensions.msgp: none is sent, but those of the peer are taken until it reconnects")
		}
	}
	if keys.Has(KeyExtensionReadReplies) {
		if now.Extensions.Has(rpcrdma.ExtReadReplies) {
			note(Applied, "extensions.read_replies: a peer that does not read such replies fails on them, as it does on the error without")
		} else {
			note(Applied, "extensions.read_replies: replies exposed already may still be read")
		}
	}
	if keys.Has(KeyExtensionCCP) {
		switch on := now.Extensions.Has(rpcrdma.ExtCCP); {
		case on && !peer.configured:
			note(PendingReconnect, "extensions.ccp: a client asks when it connects")
		case !on && peer.configured:
			note(PendingReconnect, "extensions.ccp: what the peer told holds until it reconnects")
		}
	}
	backchannelOutcome(keys, now, peer, note)
	if keys.Has(KeyExtensionV2) {
		version2Outcome(now, peer, note)
	}
	if keys.Has(KeyExtensionCharacteristics) {
		characteristicsOutcome(now, peer, note)
	}
	transmissionsOutcome(keys, now, peer, note)
	if keys.Has(KeyExtensionSendDDP) {
		placementOutcome(now, peer, note)
	}
}

// backchannelOutcome does so for calls to the client (RFC 8167).
func backchannelOutcome(keys Keys, now *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	on := now.Extensions.Has(rpcrdma.ExtBackchannel)
	if keys.Has(KeyExtensionBackchannel) {
		switch {
		case on && now.CreditsBackchannel == 0:
			note(Applied, "extensions.backchannel: no calls to the client while credits.backchannel is 0")
		case on && !peer.callable:
			note(Applied, "extensions.backchannel: calls to the client wait until the upper layer opens the back channel")
		case !on && peer.callable:
			note(Applied, "extensions.backchannel: calls to the client that are in flight are finished")
		}
	}
	if keys.Has(KeyCreditsBackchannel) && !on {
		note(Applied, "credits.backchannel: counts while extensions.backchannel is on; it is off")
	}
}
