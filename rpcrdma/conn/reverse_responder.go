package conn

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
