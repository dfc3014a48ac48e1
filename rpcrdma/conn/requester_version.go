package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Agreement is the progress of the version negotiation between a requester and its peer.
type Agreement uint8

// The states of the negotiation (version two §5). Before Agreed, one message at a time goes
// out.
const (
	// Agreed: an answer that is not an error came, or the settings allow version 1 only.
	Agreed Agreement = iota
	// Offered: version 2 was offered, or the first call will offer it.
	Offered
	// Refused: the peer answered ERR_VERS, and sent no good answer since.
	Refused
)

// negotiation is a requester's part in choosing the version.
type negotiation struct {
	way      version // of the messages that we send
	state    Agreement
	fallback bool // ERR_VERS leads to version 1
	open     bool // an offer is not answered yet
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

// spoken returns the versions whose messages are accepted now.
func (n *negotiation) spoken() versions {
	if n.state == Agreed {
		return only(n.way.number())
	}
	return speaksAll
}

// answer uses a message that answers a call to decide about the version. sound means that
// its header is valid. If again is true, make the call again in the new version. An error
// ends the connection.
func (n *negotiation) answer(h *Header, sound bool) (again bool, err error) {
	n.open = false
	switch {
	case n.state == Agreed || !sound:
	case h.Proc != rpcrdma1.Error:
		n.hears(h.Version)
	case h.Err != rpcrdma1.ErrVers || n.state == Refused:
	case n.fallback && h.Low <= rpcrdma1.Version && h.High >= rpcrdma1.Version:
		n.way, n.state = version1{}, Refused
		return true, nil
	case h.Low > rpcrdma2.Version || h.High < rpcrdma2.Version:
		return false, ErrNoVersion
	}
	return false, nil
}

// transmitted uses an answer in transmissions, which only version 2 has, to decide about the
// version.
func (n *negotiation) transmitted() {
	n.open = false
	n.hears(rpcrdma2.Version)
}

// hears records a message of the peer in a version. It decides, if that is ours.
func (n *negotiation) hears(version uint32) {
	if version == n.way.number() {
		n.state = Agreed
	}
}

// Version returns the version of our messages, 1 or 2. It is final once agreed is true.
func (r *Requester) Version() (version uint32, agreed bool) {
	return r.negotiation.way.number(), r.negotiation.state == Agreed
}

// Unanswered reports that the peer was offered version 2 and has not answered.
func (r *Requester) Unanswered() bool {
	return r.negotiation.state == Offered && r.negotiation.open
}

// Unsure reports that the peer has not answered the offer of version 2, or refused it and
// sent no good answer since. If a connection ends in this state, begin the next one with
// version 1.
func (r *Requester) Unsure() bool { return r.Unanswered() || r.negotiation.state == Refused }
