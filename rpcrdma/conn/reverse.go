package conn

// Calls in both directions on one connection (RFC 8167). Each direction has a
// role of its own at either end, with its own XIDs, credits and receives: those
// of a connection are its directions' together, and a message takes one of its
// own direction's. Inbound tells the directions apart.

// Backchannel says whether there are to be calls from server to client.
func (s *Settings) Backchannel() bool {
	return s.Extensions.Has(ExtBackchannel) && s.CreditsBackchannel > 0
}

// Reverse are the settings of the roles of the reverse direction: those of the
// connection, but for credits, and without what is not for inline messages.
func (s *Settings) Reverse() Settings {
	r := *s
	r.CreditsPolicy, r.CreditsMin = CreditsFixed, 1
	r.CreditsMax = min(max(s.CreditsBackchannel, 1), ReverseLimit)
	r.DDPMinChunk, r.placeMin = MaxMessage+1, max(s.DDPMinChunk, 1)
	r.Placement = PlaceSent
	r.Extensions &= ExtXmit | ExtContinuation | ExtSendDDP | ExtV2 | ExtV2Only
	return r
}

// Beside tells a responder of the reverse direction whose receives it has.
func (r *Responder) Beside(q *Requester) { r.chars.Targets.Own = q.chars.Targets.Own }

// Hold keeps a draining connection up while on, for calls that are made on it in
// the other direction.
func (r *Responder) Hold(on bool, acts []Action) []Action {
	r.held = on
	return r.drained(acts)
}

// Takes is the event that the peer takes so many bytes in one Send, whatever we
// said that we make: it is for responders that are made before that is known.
func (r *Responder) Takes(peerReceive uint32) {
	r.cfg.PeerReceive, r.cfg.ToldSend = peerReceive, peerReceive
}

// TakesExactly is Takes for what the peer told in its characteristics, which may
// be less than every peer of the version takes.
func (r *Responder) TakesExactly(peerReceive uint32) {
	r.Takes(peerReceive)
	r.exact = true
}
