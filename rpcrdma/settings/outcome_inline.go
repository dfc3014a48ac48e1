package settings

import "fmt"

func sendMaxOutcome(now, _ *Settings, p *Peer) (Outcome, string) {
	switch {
	case now.InlineSendMax <= p.Bound:
		return Applied, ""
	case p.Receive <= p.Bound:
		return Applied, fmt.Sprintf("the peer receives at most %d bytes", p.Bound)
	}
	if held := p.Held(); held != "" {
		return PendingReconnect, held
	}
	return PendingReconnect, fmt.Sprintf("%d bytes were announced to the peer at connect", p.Bound)
}

func receiveSizeOutcome(now, atConnect *Settings, p *Peer) (Outcome, string) {
	if !p.hears(now) {
		if now.InlineReceiveSize == atConnect.InlineReceiveSize {
			return Applied, ""
		}
		return PendingReconnect, fmt.Sprintf("%s, %d bytes here", p.fixed(now), atConnect.InlineReceiveSize)
	}
	switch want, has := now.Receives(), p.Told.Receives; {
	case want > has:
		return Applied, fmt.Sprintf("larger receives are posted; their size is announced when the last receive of %d bytes is used up", has)
	case want < has && p.Told.Asks:
		return Applied, fmt.Sprintf("receives have %d bytes until the peer asks for smaller ones, as rdmad has requested", has)
	case want < has:
		return PendingReconnect, fmt.Sprintf("receives have %d bytes until the peer asks for less", has)
	}
	return Applied, ""
}

func acceptOutcome(now, atConnect *Settings, p *Peer) (Outcome, string) {
	switch {
	case p.Target && p.NoWindows && now.RemoteInvalidationAccept:
		return Unsupported, fmt.Sprintf("device %s has no memory windows, and what it registers can't be invalidated", p.Device)
	case !p.hears(now) && now.RemoteInvalidationAccept != atConnect.RemoteInvalidationAccept:
		return PendingReconnect, fmt.Sprintf("%s, %s here", p.fixed(now), onOff[boolValue(atConnect.RemoteInvalidationAccept)])
	}
	return Applied, ""
}

func useOutcome(now, atConnect *Settings, p *Peer) (Outcome, string) {
	switch hears := p.hears(now); {
	case !now.RemoteInvalidationUse:
	case hears && !p.Told.Invalidation:
		return Applied, "the peer announces that it accepts none now"
	case hears:
	case p.NoSendInvalidate:
		return Unsupported, fmt.Sprintf("device %s has no Send With Invalidate", p.Device)
	case !atConnect.RemoteInvalidationAccept:
		return Unsupported, "remote_invalidation.accept was off at connect"
	case !p.Invalidation:
		return Unsupported, "the peer did not offer it"
	}
	return Applied, ""
}

// hears reports whether changes are announced to the peer on the connection.
func (p *Peer) hears(now *Settings) bool {
	return p.Told.Spoken && now.Extensions.Has(ExtCharacteristics)
}

// fixed returns why a value stays as it was at connect.
func (p *Peer) fixed(now *Settings) string {
	switch {
	case p.Version != 2 || !p.Agreed:
		return "version 1 fixes it at connect"
	case !now.Extensions.Has(ExtCharacteristics):
		return "without extensions.characteristics it is fixed at connect"
	}
	return "it is fixed at connect for a peer without characteristics"
}
