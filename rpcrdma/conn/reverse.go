package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Calls in both directions on one connection (RFC 8167). Each direction has a
// role of its own at either end, with its own XIDs, credits and receives: those
// of a connection are its directions' together, and a message takes one of its
// own direction's. That of a message whose direction can't be told is forward.
//
// Version 1 has no direction in its header. The type of the RPC message tells it,
// which is inline in the reverse direction. An error of either version always
// goes from responder to requester.

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
	r.Extensions &= ExtXmit | ExtContinuation | ExtSendDDP
	return r
}

// Beside tells a responder of the reverse direction whose receives it has.
func (r *Responder) Beside(q *Requester) { r.targets.ownTargets = q.targets.ownTargets }

// Duplex says whether a requester's messages are to be told from those of this
// responder, by Other actions.
func (r *Responder) Duplex(on bool) { r.duplex = on }

// Duplex says whether a responder's messages are to be told from those of this
// requester, by Other actions.
func (r *Requester) Duplex(on bool) { r.duplex = on }

// answers says whether a message to a server answers a call of the reverse
// direction.
func answers(h *Header, err error, body []byte) bool {
	if err != nil {
		return false
	}
	d, known := versionOf(h.Version).direction(h, body)
	return known && d == rpcrdma2.Reply
}

// calledBy says whether a message to a client is a call of the reverse
// direction. In version 1 a message in a position-zero chunk may be a call as
// well as a reply that we are to read: it is a call if it can't be such a reply.
func (r *Requester) calledBy(h *Header, err error, body []byte) bool {
	if err != nil {
		return false
	}
	if d, known := versionOf(h.Version).direction(h, body); known {
		return d == rpcrdma2.Call
	}
	_, ours := r.sent[h.XID]
	return h.Proc == rpcrdma1.NoMsg && len(h.Reads) > 0 && !ours && !r.reads()
}

// misdirected says that a message which came to a requester says that it is
// for a responder, of which there is none.
func misdirected(h *Header, err error) bool {
	return err == nil && h.Version == rpcrdma2.Version && h.Proc != rpcrdma2.Error && h.Direction == rpcrdma2.Call
}

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
