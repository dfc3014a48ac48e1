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
