package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// spoken returns the versions of calls that a responder accepts now. After the first good
// call, that is the agreed version.
func (r *Responder) spoken() versions {
	if r.version != 0 {
		return only(r.version)
	}
	return r.begins()
}

// begins returns the versions with which a peer may begin: the range that ERR_VERS reports.
// It keeps this range after one version was agreed on (RFC 5666 §4.2), so that the peer
// knows what to choose on its next connection. Version 2 is not included while the receives
// are too small for it, because they were posted before it was turned on. A peer that has
// not begun when Speak fixes the version must begin with that version.
func (r *Responder) begins() versions {
	if r.version != 0 && !r.begun {
		return only(r.version)
	}
	v := versionsOf(&r.settings)
	if r.cfg.Receive < rpcrdma2.DefaultReceiveSize {
		v = speaks1
	}
	if r.version != 0 {
		v |= only(r.version)
	}
	return v
}

// Version returns the version that the peer chose, or the lowest that it may choose. chosen
// means that there is only one.
func (r *Responder) Version() (version uint32, chosen bool) {
	v := r.spoken()
	return v.low(), v.low() == v.high()
}

// Agreed reports that the connection's version is fixed.
func (r *Responder) Agreed() bool { return r.version != 0 }

// Speak is the event that the other direction has agreed on a version, or that calls in the
// other direction are about to use the only one possible. It then holds for this direction,
// too. The client's own first message is still to come, or to be answered, at a server.
func (r *Responder) Speak(version uint32) {
	r.version, r.settled = version, r.settled || r.cfg.Reverse
	r.early = !r.settled
}

// settle is the event that an answer was made. A good one settles the limits of the version
// (version two §5.1), which concerns calls in the other direction, too.
func (r *Responder) settle(good bool, acts []Action) []Action {
	if r.settled || !good {
		return acts
	}
	before := r.AgreedReceive()
	r.settled = true
	if r.early && r.AgreedReceive() != before {
		acts = append(acts, Changed{})
	}
	return acts
}
