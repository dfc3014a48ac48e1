package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// ErrNoVersion means that the peer speaks no version that the settings let us
// speak with it.
var ErrNoVersion = errors.New("conn: no common version")

// FirstMessageMax is the most bytes of the first message of a connection, which
// a peer that speaks version 1 alone has to take, too (version two §5).
const FirstMessageMax = InlineMin

// versions are those that the settings let a connection begin with.
func (s *Settings) versions() versions {
	switch {
	case s.Extensions.Has(ExtV2Only):
		return speaks2
	case s.Extensions.Has(ExtV2):
		return speaksAll
	}
	return speaks1
}

// Receives is the size of the receive buffers to post, in bytes: version 2 asks
// for at least 4096 of everybody.
func (s *Settings) Receives() uint32 {
	if s.versions().has(rpcrdma2.Version) {
		return max(s.InlineReceiveSize, rpcrdma2.DefaultReceiveSize)
	}
	return s.InlineReceiveSize
}

// Agreement is how far a requester and its peer are about the version.
type Agreement uint8

// The states of the negotiation (version two §5). Before Agreed one message at
// a time goes out.
const (
	// Agreed: an answer that is no error came, or version 1 is all that was to
	// be spoken.
	Agreed Agreement = iota
	// Offered: version 2 was offered, or will be with the first call.
	Offered
	// Refused: the peer said ERR_VERS, and nothing good since.
	Refused
)

// negotiation is a requester's part in choosing the version.
type negotiation struct {
	way      version // of what we send
	state    Agreement
	fallback bool // ERR_VERS leads to version 1
	open     bool // an offer is not answered
}

// begin chooses the version of the first message.
func (n *negotiation) begin(cfg *RequesterConfig) {
	spoken := cfg.Settings.versions()
	switch {
	case cfg.Version != 0:
		n.way = versionOf(cfg.Version)
	case spoken.has(rpcrdma2.Version) && (!cfg.Only1 || !spoken.has(rpcrdma1.Version)):
		n.way, n.state, n.fallback = version2{}, Offered, spoken.has(rpcrdma1.Version)
	default:
		n.way = version1{}
	}
}

// spoken are the versions of messages that are taken now.
func (n *negotiation) spoken() versions {
	if n.state == Agreed {
		return only(n.way.number())
	}
	return speaksAll
}

// answer takes what a message that answers a call, and has a sound header or
// not, says about the version. again is set when the call is to be made again in
// another one. An error ends the connection.
func (n *negotiation) answer(h *Header, sound bool) (again bool, err error) {
	n.open = false
	switch {
	case n.state == Agreed || !sound:
	case h.Proc != rpcrdma1.Error:
		if h.Version == n.way.number() {
			n.state = Agreed
		}
	case h.Err != rpcrdma1.ErrVers || n.state == Refused:
	case n.fallback && h.Low <= rpcrdma1.Version && h.High >= rpcrdma1.Version:
		n.way, n.state = version1{}, Refused
		return true, nil
	case h.Low > rpcrdma2.Version || h.High < rpcrdma2.Version:
		return false, ErrNoVersion
	}
	return false, nil
}

// called takes what a call of the peer says about the version: it has one.
func (n *negotiation) called(h *Header) {
	if h.Version == n.way.number() {
		n.state = Agreed
	}
}

// alone says that nothing may go out while something is in flight.
func (n *negotiation) alone() bool { return n.state != Agreed }

// Version is the version of what goes out: 1 or 2. It is final once agreed.
func (r *Requester) Version() (version uint32, agreed bool) {
	return r.negotiation.way.number(), r.negotiation.state == Agreed
}

// Unanswered says that the peer was offered version 2 and has not answered.
func (r *Requester) Unanswered() bool {
	return r.negotiation.state == Offered && r.negotiation.open
}

// Unsure says that the peer has not answered the offer of version 2, or refused
// it and gave no good answer since. A connection that ends like that is a reason
// to begin the next with version 1.
func (r *Requester) Unsure() bool { return r.Unanswered() || r.negotiation.state == Refused }

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
	v := r.settings.versions()
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
