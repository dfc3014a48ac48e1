package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// spoken are the versions of calls that a responder takes now: what it agreed
// to, once there is a good call.
func (r *Responder) spoken() versions {
	if r.version != 0 {
		return only(r.version)
	}
	return r.begins()
}

// begins are the versions that a peer may begin with: the range that ERR_VERS tells,
// also after one of them was agreed on (RFC 5666 §4.2), so that the peer knows
// what to choose on its next connection. Version 2 can't be begun with receives
// that are too small for it, as they were posted before it was turned on.
func (r *Responder) begins() versions {
	v := versionsOf(&r.settings)
	if r.cfg.Receive < rpcrdma2.DefaultReceiveSize {
		v = speaks1
	}
	if r.version != 0 {
		v |= only(r.version)
	}
	return v
}

// Version is the version that the peer chose, or the lowest that it may choose:
// chosen says that there is one only.
func (r *Responder) Version() (version uint32, chosen bool) {
	v := r.spoken()
	return v.low(), v.low() == v.high()
}

// Agreed says that the connection's version is fixed.
func (r *Responder) Agreed() bool { return r.version != 0 }

// Speak is the event that the connection has a version, whatever the peer of
// this direction may still call: it is that of the other direction.
func (r *Responder) Speak(version uint32) { r.version = version }
