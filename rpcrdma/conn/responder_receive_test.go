package conn

// inbounds are for tests of one role alone, which take each message by itself. They
// are no sync.Pool: that forgets some under the race detector.
var inbounds = make(chan *Inbound, 64)

func inboundOf(q *Requester, s *Responder) *Inbound {
	var in *Inbound
	select {
	case in = <-inbounds:
	default:
		in = new(Inbound)
	}
	in.requester, in.responder = q, s
	return in
}

func (in *Inbound) giveBack() {
	select {
	case inbounds <- in:
	default:
	}
}

// Receive has a message arrive for a responder.
func (r *Responder) Receive(recv uint32, msg []byte, acts []Action) []Action {
	in := inboundOf(nil, r)
	defer in.giveBack()
	return r.Arrived(in.Arrive(recv, msg, Invalidation{}), acts)
}

// Receive has a message arrive for a requester.
func (r *Requester) Receive(recv uint32, msg []byte, inv Invalidation, acts []Action) []Action {
	in := inboundOf(r, nil)
	defer in.giveBack()
	return r.Arrived(in.Arrive(recv, msg, inv), acts)
}

// decode decodes the header of a message that arrived, and gives its length.
func (h *Header) decode(b []byte, spoken versions) (n int, err error) {
	var a Arrival
	a.decode(b, spoken)
	*h = a.header
	return len(b) - len(a.body), a.err
}
