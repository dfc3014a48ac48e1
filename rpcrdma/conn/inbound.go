package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Inbound is where the messages of one end of a connection arrive. It decodes
// each of them once and decides which role takes it: the responder takes calls,
// the requester takes replies. Credits, receives, XIDs and statistics are a
// direction's own, so nothing of a message is counted before that (RFC 8167 §4.1).
//
// The direction of a message is, in this order:
//
//   - what its header says: an error goes from responder to requester, a DONE from
//     requester to responder, and version 2 has a field for it;
//   - in version 1 the type of the RPC message behind the header, even if the
//     header's lists are too long for us;
//   - the same with the RPC message in a position-zero read chunk, which is read
//     before that (Long), where such calls and such replies are both taken;
//   - what is left by context: a server's end takes calls alone while it makes none,
//     and a client's end replies alone while calls are not served there. A reply in
//     the reply chunk returns that chunk, and has no RPC message elsewhere.
//
// A message that could be either all the same is answered as a bad call is, with
// an error, and is not matched with a call of ours, nor is its credit value used
// (RFC 8167 §4.1). If it was a reply after all, that is what becomes of one with a
// bad header: a requester discards it (RFC 8166 §4.5), and the peer ignores an
// error that answers nothing.
type Inbound struct {
	requester *Requester
	responder *Responder
	served    bool // calls are
	arrival   Arrival
	reading   int     // Long messages being read
	longs     []*Long // free
}

// Arrival is a message that arrived, decoded. It is valid until the next one
// arrives, and its bytes until its receive is given back.
type Arrival struct {
	Recv uint32
	Invalidation
	// Long, if not nil, has to be read before a role takes the message: get memory
	// for each of Long.Reads.Chunks, post the RDMA Reads in Long.Fetches into it,
	// then call Inbound.Read. Nothing else of the Arrival is valid.
	Long *Long
	// Call says that the responder takes it, else the requester does.
	Call bool
	// Interrupts says that a transmission group of the other role was arriving,
	// which this message ends: Interrupted goes to that role first.
	Interrupts bool

	header Header
	err    error  // of decoding the header
	body   []byte // what follows the header
	// direction is valid if known; then it is what the message says.
	direction rpcrdma2.Direction
	known     bool
}

// Replies makes q the role that takes replies.
func (in *Inbound) Replies(q *Requester) { in.requester = q }

// Calls makes s the role that takes calls. served says that the peer has reason
// to make some.
func (in *Inbound) Calls(s *Responder, served bool) {
	in.responder, in.served = s, served
	in.speak()
}

// speak tells the responder of a client which version the client's calls agreed on.
func (in *Inbound) speak() {
	if q := in.requester; q != nil && in.responder != nil && in.responder.cfg.Reverse {
		if v, agreed := q.Version(); agreed {
			in.responder.Speak(v)
		}
	}
}

// Arrive is the event that a message arrived in the receive recv, and maybe
// revoked one of our STags. The Arrival is for the role that Call names. A client
// without a responder makes one for a call, or gives the call to the requester,
// which drops it.
func (in *Inbound) Arrive(recv uint32, msg []byte, inv Invalidation) *Arrival {
	a := &in.arrival
	a.Recv, a.Invalidation = recv, inv
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
			in.requester.negotiation.called(&a.header)
		}
		in.speak()
	}
}

// server says whether this is the server's end.
func (in *Inbound) server() bool { return in.responder != nil && !in.responder.cfg.Reverse }

// spoken are the versions of messages that are taken now: those of the forward
// direction.
func (in *Inbound) spoken() versions {
	if in.server() {
		return in.responder.spoken()
	}
	return in.requester.negotiation.spoken()
}

// calls says whether a message is the responder's.
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

// interrupts says whether a group is arriving for the role that does not take a.
func (in *Inbound) interrupts(a *Arrival) bool {
	if a.Call {
		return in.requester != nil && in.requester.gather.Open
	}
	return in.responder != nil && in.responder.xmit.gather.Open
}

// decode decodes a message. One of a version that is not spoken now, but known, is
// decoded for its direction alone.
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
	case p.Proc == rpcrdma1.Error && long: // its number is the same in all versions
		a.direction, a.known = rpcrdma2.Reply, true
	case errors.Is(err, rpcrdma1.ErrMalformed):
		a.direction, a.known = way.malformed(msg)
	}
	if a.err = err; long && !spoken.has(p.Version) {
		a.err = rpcrdma1.ErrVersion
	}
}

// done says whether a message is a DONE of version 1. It gets no answer, also on a
// connection of another version.
func (a *Arrival) done() bool {
	h := &a.header
	return h.Proc == rpcrdma1.Done && h.Version == rpcrdma1.Version && (a.err == nil || errors.Is(a.err, rpcrdma1.ErrVersion))
}

// continues says whether a message is an XMTCONT in a direction.
func (a *Arrival) continues(d rpcrdma2.Direction) bool {
	h := &a.header
	return operates(h, a.err) && h.Option == rpcrdma2.OptXmtCont && h.Direction == d
}

// interrupt ends a group that was arriving: this message came before its end.
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

// looksLikeReply says whether a message to a client whose direction is not known
// is a reply. Without an RPC message inline or in a chunk that we read, it is one
// that returns the reply chunk.
func (a *Arrival) looksLikeReply() bool {
	h := &a.header
	return a.err == nil && h.Proc == rpcrdma1.NoMsg && len(h.Reads) == 0 && h.HasReply
}
