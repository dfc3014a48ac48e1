package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

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
	spoken := versionsOf(cfg.Settings)
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
