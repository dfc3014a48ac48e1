package dataplane

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Settings of the side that answers calls: on connections of connectors that
// is the target, whatever is set here.
const responderKeys = KeyRemoteInvalidationUse | KeyCreditsPolicy | KeyCreditsMin | KeyCreditsWeight

// extensionKeys are those of which the outcome depends on the role.
const extensionKeys = KeyExtensionMSGP | KeyExtensionReadReplies | KeyExtensionCCP | KeyExtensionBackchannel | KeyCreditsBackchannel | KeyExtensionV2 | KeyExtensionCharacteristics |
	KeyExtensionXmit | KeyExtensionContinuation | KeyExtensionSendDDP | KeyDDPPlacement

// connectorOutcome is outcome for a connection that a connector made.
func connectorOutcome(keys Keys, now, atConnect *rpcrdma.Settings, peer limits) (Outcome, string) {
	cant := Keys(0)
	if peer.noWindows && now.RemoteInvalidationAccept {
		cant = keys & KeyRemoteInvalidationAccept
	}
	worst, text := outcome(keys&^(responderKeys|extensionKeys|cant), now, atConnect, peer)
	var reasons []string
	if text != "" {
		reasons = append(reasons, text)
	}
	note := func(o Outcome, format string, args ...any) {
		worst = max(worst, o)
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	if cant != 0 {
		note(Unsupported, "remote_invalidation.accept: device %s has no memory windows, and what it registers can't be invalidated", peer.device)
	}
	if k := keys & responderKeys; k != 0 {
		note(Unsupported, "%v: the target of a connector decides on that", k)
	}
	changed := func(e rpcrdma.Extensions) bool { return now.Extensions.Has(e) != atConnect.Extensions.Has(e) }
	if keys.Has(KeyExtensionMSGP) && now.Extensions.Has(rpcrdma.ExtMSGP) {
		note(Applied, "extensions.msgp: a target that takes no RDMA_MSGP fails on padded calls")
	}
	if keys.Has(KeyExtensionReadReplies) && changed(rpcrdma.ExtReadReplies) {
		note(PendingReconnect, "extensions.read_replies: rdmad announces at connect whether it reads replies")
	}
	if keys.Has(KeyExtensionCCP) && changed(rpcrdma.ExtCCP) {
		note(PendingReconnect, "extensions.ccp: the target is asked at connect")
	}
	on := now.Extensions.Has(rpcrdma.ExtBackchannel)
	if keys.Has(KeyExtensionBackchannel) && on && now.CreditsBackchannel == 0 {
		note(Applied, "extensions.backchannel: no calls of the target while credits.backchannel is 0")
	}
	if keys.Has(KeyCreditsBackchannel) && !on {
		note(Applied, "credits.backchannel: counts while extensions.backchannel is on; it is off")
	}
	if keys.Has(KeyExtensionV2) {
		version2Wanted(now, atConnect, peer, note)
	}
	if keys.Has(KeyExtensionCharacteristics) {
		characteristicsOutcome(now, peer, note)
	}
	transmissionsOutcome(keys, now, peer, note)
	if keys.Has(KeyExtensionSendDDP) {
		placementOutcome(now, peer, note)
	}
	if keys.Has(KeyDDPPlacement) {
		askedOutcome(now, peer, note)
	}
	return worst, strings.Join(reasons, "; ")
}
