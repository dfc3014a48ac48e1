package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Inbound receives all messages of one end of a connection. It decodes each message once
// and decides which role takes it: the responder takes calls, the requester takes replies.
// Each direction has its own credits, receives, XIDs and statistics, so Inbound counts
// nothing before it knows the direction (RFC 8167 §4.1).
//
// Inbound finds the direction from the first of these that decides it:
//
//   - the header: an error goes from responder to requester, a DONE from requester to
//     responder, and version 2 has a field for the direction;
//   - in version 1, the type of the RPC message behind the header, even if the header's
//     lists are too long for us;
//   - the type of an RPC message in a position-zero read chunk. Where both such calls and
//     such replies are accepted, the chunk is read first (Long);
//   - the context: a server that makes no calls receives only calls, and a client that
//     serves no calls receives only replies. A reply in the reply chunk returns that
//     chunk, and has no RPC message elsewhere.
//
// A message that could still be either is answered with an error, as a bad call is. It is
// not matched with one of our calls, and its credit value is not used (RFC 8167 §4.1). If
// it was a reply, the result is the same as for a reply with a bad header: a requester
// discards it (RFC 8166 §4.5), and the peer ignores an error that answers nothing.
type Inbound struct {
	requester *Requester
	responder *Responder
	served    bool // the peer has reason to make calls
	arrival   Arrival
	reading   int     // Long messages being read
	longs     []*Long // free
	seq       uint64  // of the last message that arrived
}

// Arrival is a decoded message. It is valid until the next one arrives. Its bytes are valid
// until its receive is given back.
type Arrival struct {
	Recv uint32
	Invalidation
	// Long is set when the message must be read before a role takes it. Get memory for each
	// of Long.Reads.Chunks, post the RDMA Reads of Long.Fetches into it, then call
	// Inbound.Read. No other field of the Arrival is valid.
	Long *Long
	// Call means that the responder takes the message. Otherwise the requester takes it.
	Call bool
	// Interrupts means that this message ends a transmission group that was arriving for
	// the other role. Give Interrupted to that role first.
	Interrupts bool

	header Header
	err    error  // from decoding the header
	body   []byte // what follows the header
	// direction is what the message itself says. It is valid if known.
	direction rpcrdma2.Direction
	known     bool
	// reads and early are for a message that was read (Long). reads: the requester took replies
	// with read chunks when it arrived. early: it arrived before a call with its XID was made, so
	// it is no reply to one.
	reads, early bool
	seq          uint64 // numbers messages in the order in which they arrived
}

// Replies sets the role that takes replies.
func (in *Inbound) Replies(q *Requester) { in.requester = q }

// Calls sets the role that takes calls. served means that the peer has reason to make
// calls.
func (in *Inbound) Calls(s *Responder, served bool) {
	in.responder, in.served = s, served
	in.speak()
}

// speak gives the version that the client's calls agreed on to the client's own responder.
func (in *Inbound) speak() {
	if q := in.requester; q != nil && in.responder != nil && in.responder.cfg.Reverse {
		if v, agreed := q.Version(); agreed {
			in.responder.Speak(v)
		}
	}
}

// Arrive is the event that a message arrived in the receive recv and may have invalidated
// one of our STags. Give the Arrival to the role that its Call names. A client without a
// responder creates one for a call, or gives the call to the requester, which drops it.
func (in *Inbound) Arrive(recv uint32, msg []byte, inv Invalidation) *Arrival {
	a := &in.arrival
	in.seq++
	a.Recv, a.Invalidation, a.reads, a.early, a.seq = recv, inv, false, false, in.seq
	a.decode(msg, in.spoken())
	if a.Long = in.long(a); a.Long == nil {
		in.direct(a)
	}
	return a
}

// direct decides which role takes a message.
func (in *Inbound) direct(a *Arrival) {
	a.Call = in.calls(a)
	a.Interrupts = in.interrupts(a)
	if a.Call && in.requester != nil {
		if a.err == nil && a.known {
			in.requester.negotiation.hears(a.header.Version)
		}
		in.speak()
	}
}

// server reports whether this is the server's end.
func (in *Inbound) server() bool { return in.responder != nil && !in.responder.cfg.Reverse }

// spoken returns the versions whose messages are accepted now: those of the forward
// direction.
func (in *Inbound) spoken() versions {
	if in.server() {
		return in.responder.spoken()
	}
	return in.requester.negotiation.spoken()
}

// calls reports whether the responder takes a message.
func (in *Inbound) calls(a *Arrival) bool {
	switch {
	case in.requester == nil:
		return true
	case errors.Is(a.err, rpcrdma1.ErrShort): // not even an XID: counted and dropped
		return in.server()
	case a.known:
		return a.direction == rpcrdma2.Call
	case !in.served:
		return false
	}
	return in.server() || !a.looksLikeReply()
}

// interrupts reports whether a group is arriving for the role that does not take a.
func (in *Inbound) interrupts(a *Arrival) bool {
	if a.Call {
		return in.requester != nil && in.requester.gather.Open
	}
	return in.responder != nil && in.responder.xmit.gather.Open
}

// decode decodes a message. A message of a known version that is not spoken now is decoded
// only to find its direction, unless it is an ERR_VERS.
func (a *Arrival) decode(msg []byte, spoken versions) {
	h := &a.header
	p, long := rpcrdma1.DecodePrefix(msg)
	way := spoken.any()
	if long && speaksAll.has(p.Version) {
		way = versionOf(p.Version)
	}
	n, err := way.decode(h, msg)
	a.body = msg[n:]
	a.direction, a.known = 0, false
	switch {
	case err == nil:
		a.direction, a.known = way.direction(h, a.body)
	case p.Proc == rpcrdma1.Error && long: // the same number in all versions
		a.direction, a.known = rpcrdma2.Reply, true
	case errors.Is(err, rpcrdma1.ErrMalformed):
		a.direction, a.known = way.malformed(msg)
	}
	switch {
	case !long || spoken.has(p.Version):
		a.err = err
	case h.DecodeRefusal(msg): // the peer speaks this version, and not ours
		a.err = nil
	default:
		a.err = rpcrdma1.ErrVersion
	}
}

// done reports whether a message is a DONE of version 1. A DONE gets no answer, even on a
// connection of another version.
func (a *Arrival) done() bool {
	h := &a.header
	return h.Proc == rpcrdma1.Done && h.Version == rpcrdma1.Version && (a.err == nil || errors.Is(a.err, rpcrdma1.ErrVersion))
}

// continues reports whether a message is an XMTCONT in direction d.
func (a *Arrival) continues(d rpcrdma2.Direction) bool {
	h := &a.header
	return operates(h, a.err) && h.Option == rpcrdma2.OptXmtCont && h.Direction == d
}

// interrupt ends a group that was arriving: this message came before the group was
// complete.
func (a *Arrival) interrupt(g *transmission.Gathering) {
	if errors.Is(a.err, rpcrdma1.ErrShort) {
		g.InterruptShort()
		return
	}
	d := g.Direction
	if a.known {
		d = a.direction
	}
	g.Interrupt(&a.header.Header, d, operates(&a.header, a.err))
}

// looksLikeReply reports whether a client takes a message of unknown direction for a reply.
// Without an RPC message inline or in a chunk that we read, it must return the reply chunk.
func (a *Arrival) looksLikeReply() bool {
	h := &a.header
	return a.err == nil && h.Proc == rpcrdma1.NoMsg && len(h.Reads) == 0 && h.HasReply
}
