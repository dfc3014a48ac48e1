package conn

// Beside gives a responder the requester of the other direction, with which it shares receives.
// Give Replied for each answer that the requester of a server gets.
func (r *Responder) Beside(q *Requester) {
	if r.beside = q; r.cfg.Reverse {
		r.chars.Targets.Own = q.chars.Targets.Own
	}
}

// Hold keeps a draining connection up while on is true, for calls in the other direction.
func (r *Responder) Hold(on bool, acts []Action) []Action {
	r.held = on
	return r.drained(acts)
}

// Takes is the event that the peer takes peerReceive bytes in one Send, whatever we
// announced. It is for responders that are created before that is known.
func (r *Responder) Takes(peerReceive uint32) {
	r.cfg.PeerReceive, r.cfg.ToldSend = peerReceive, peerReceive
}

// TakesExactly is Takes for a size from the peer's characteristics. This may be less than
// every peer of the version takes.
func (r *Responder) TakesExactly(peerReceive uint32) {
	r.Takes(peerReceive)
	r.exact = true
}
