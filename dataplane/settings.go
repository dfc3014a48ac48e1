package dataplane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma"
)

// ChangedFunc says which settings an update touches on a connection, and what
// there is to say of it beside what the connection itself tells; with 0 what is
// in force on the connection stays as it is.
type ChangedFunc func(ConnKey) (keys Keys, note string)

// ApplySettings makes resolve the source of settings: of connections to
// come, and at once of every connection that is up. It returns an effect for
// each connection that changed names keys for, in the order of ids. With a
// nil changed the resolver is swapped and applied all the same, without
// effects. Calls are applied one after another.
func (d *Dataplane) ApplySettings(resolve Resolver, changed ChangedFunc) []Effect {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	d.resolve = resolve
	d.revision++
	revision, all := d.revision, slices.Clone(d.conns.all)
	d.mu.Unlock()
	var effects []Effect
	for _, c := range all {
		var keys Keys
		var note string
		if changed != nil {
			if keys, note = changed(c.key); keys == 0 {
				continue
			}
		}
		peer := c.peerLimits(keys) // as they are before the peer hears of it
		before, now := c.update(resolve, revision)
		if before != now && *before != *now {
			d.changed(c)
		}
		if keys != 0 {
			effects = appendEffect(effects, len(all), c.effect(keys, now, peer, note))
		}
	}
	return effects
}

// appendEffect appends to the effects on some of all connections: mostly one or
// nearly all of them.
func appendEffect(effects []Effect, all int, e Effect) []Effect {
	if len(effects) == 1 {
		effects = slices.Grow(effects, all-1)
	}
	return append(effects, e)
}

// PreviewSettings says what ApplySettings would answer, and changes nothing.
func (d *Dataplane) PreviewSettings(resolve Resolver, changed ChangedFunc) []Effect {
	var effects []Effect
	all := d.snapshot()
	for _, c := range all {
		if keys, note := changed(c.key); keys != 0 {
			effects = appendEffect(effects, len(all), c.effect(keys, resolve(c.key), c.peerLimits(keys), note))
		}
	}
	return effects
}

// effect is what now does to a connection with these limits, for the keys that
// were changed.
func (c *conn) effect(keys Keys, now *rpcrdma.Settings, peer limits, note string) Effect {
	e := Effect{ConnID: c.key.ID}
	select {
	case <-c.link.Done():
		e.Outcome, e.Reason = Unsupported, "the connection has ended"
	default:
		fold := outcome
		if c.rc == nil {
			fold = connectorOutcome
		}
		e.Outcome, e.Reason = fold(keys, now, c.atConnect, peer)
	}
	e.Note(note)
	return e
}

// peerKeys are those of which the outcome depends on the peer's limits or the
// device.
const peerKeys = KeyInlineSendMax | KeyInlineReceiveSize | KeyRemoteInvalidationAccept | KeyRemoteInvalidationUse | KeyExtensionMSGP | KeyExtensionCCP | KeyExtensionBackchannel | KeyExtensionV2 | KeyExtensionCharacteristics |
	KeyExtensionXmit | KeyExtensionContinuation | KeyExtensionSendDDP | KeyDDPPlacement

// limits are what the two sides told each other at connect, and what the device
// can't. Sizes are in bytes.
type limits struct {
	bound        uint32 // of our Sends on this connection
	receive      uint32 // what the peer takes; it may be more
	invalidation bool   // the peer's STags may be invalidated
	configured   bool   // the peer spoke CCP
	pads         bool   // the peer sent RDMA_MSGP
	padTaken     bool   // and may
	callable     bool   // calls to the client can be made
	version      int    // spoken, or to be offered
	agreed       bool   // for the connection's life
	receives     uint32 // size of ours
	held         string // why it gets no larger Sends, if it takes them

	told told // as characteristics

	device           string // its name
	noWindows        bool   // it has none
	noSendInvalidate bool   // it can't
}

// peerLimits are the connection's, for keys that depend on them.
func (c *conn) peerLimits(keys Keys) limits {
	if keys&peerKeys == 0 {
		return limits{}
	}
	i := c.link.Info()
	l := limits{
		bound: i.PeerReceive, receive: i.PeerReceiveSize, invalidation: i.PeerRemoteInvalidation,
		configured: i.Configuration.Spoken, pads: i.Padding.Received > 0, padTaken: i.Padding.Taken,
		callable: i.Backchannel.Open,
		version:  i.RPCVersion, agreed: i.VersionAgreed, receives: i.InlineReceive,
		told:   toldOf(&i.Characteristics),
		device: i.Device, noWindows: i.NoWindows, noSendInvalidate: i.NoSendInvalidate,
	}
	if l.configured || l.told.spoken { // it told last what it receives
		l.receive = l.bound
	}
	if keys.Has(KeyInlineSendMax) {
		l.held = c.held(&l)
	}
	return l
}

// outcome folds what becomes of each key to the weakest, with the reasons of
// those that have one.
func outcome(keys Keys, now, atConnect *rpcrdma.Settings, peer limits) (Outcome, string) {
	worst := Applied
	var reasons []string
	note := func(o Outcome, format string, args ...any) {
		worst = max(worst, o)
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	if keys.Has(KeyInlineSendMax) && now.InlineSendMax > peer.bound {
		switch {
		case peer.receive <= peer.bound:
			note(Applied, "inline.send_max: the peer receives at most %d bytes", peer.receive)
		case peer.held != "":
			note(PendingReconnect, "inline.send_max: %s", peer.held)
		default:
			note(PendingReconnect, "inline.send_max: %d bytes were announced to the peer at connect", peer.bound)
		}
	}
	if peer.told.spoken && now.Extensions.Has(rpcrdma.ExtCharacteristics) {
		toldOutcome(keys, now, peer.told, note)
	} else {
		fixedOutcome(keys, now, atConnect, peer, note)
	}
	extensionOutcome(keys, now, peer, note)
	if keys.Has(KeyDDPPlacement) {
		note(Unsupported, "ddp.placement: has no effect at a listener, where the client decides how results are placed")
	}
	if keys.Has(KeyCreditsWeight) && now.CreditsPolicy == rpcrdma.CreditsFixed {
		note(Applied, "credits.weight: counts while credits.policy is adaptive; it is fixed")
	}
	return worst, strings.Join(reasons, "; ")
}

// fixedOutcome notes what becomes of settings that are told at connect.
func fixedOutcome(keys Keys, now, atConnect *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	if keys.Has(KeyInlineReceiveSize) && now.InlineReceiveSize != atConnect.InlineReceiveSize {
		note(PendingReconnect, "inline.receive_size: %s, %d bytes here", fixed(now, peer), atConnect.InlineReceiveSize)
	}
	if keys.Has(KeyRemoteInvalidationAccept) && now.RemoteInvalidationAccept != atConnect.RemoteInvalidationAccept {
		note(PendingReconnect, "remote_invalidation.accept: %s, %s here", fixed(now, peer), onOff(atConnect.RemoteInvalidationAccept))
	}
	if keys.Has(KeyRemoteInvalidationUse) && now.RemoteInvalidationUse {
		switch {
		case peer.noSendInvalidate:
			note(Unsupported, "remote_invalidation.use: device %s has no Send With Invalidate", peer.device)
		case !atConnect.RemoteInvalidationAccept:
			note(Unsupported, "remote_invalidation.use: remote_invalidation.accept was off at connect")
		case !peer.invalidation:
			note(Unsupported, "remote_invalidation.use: the peer did not offer it")
		}
	}
}

// fixed says why something stays as it was at connect.
func fixed(now *rpcrdma.Settings, peer limits) string {
	switch {
	case peer.version != 2 || !peer.agreed:
		return "version 1 fixes it at connect"
	case !now.Extensions.Has(rpcrdma.ExtCharacteristics):
		return "without extensions.characteristics it is fixed at connect"
	}
	return "it is fixed at connect for a peer without characteristics"
}

func onOff(v bool) string {
	if v {
		return "on"
	}
	return "off"
}
