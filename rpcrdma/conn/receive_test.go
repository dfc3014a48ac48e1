package conn

import "sync"

// inbounds are for tests of one role alone, which take each message by itself.
var inbounds = sync.Pool{New: func() any { return new(Inbound) }}

// Receive has a message arrive for a responder.
func (r *Responder) Receive(recv uint32, msg []byte, acts []Action) []Action {
	in := inbounds.Get().(*Inbound)
	defer inbounds.Put(in)
	in.requester, in.responder = nil, r
	return r.Arrived(in.Arrive(recv, msg, Invalidation{}), acts)
}

// Receive has a message arrive for a requester.
func (r *Requester) Receive(recv uint32, msg []byte, inv Invalidation, acts []Action) []Action {
	in := inbounds.Get().(*Inbound)
	defer inbounds.Put(in)
	in.requester, in.responder = r, nil
	return r.Arrived(in.Arrive(recv, msg, inv), acts)
}

// decode decodes the header of a message that arrived, and gives its length.
func (h *Header) decode(b []byte, spoken versions) (n int, err error) {
	var a Arrival
	a.decode(b, spoken)
	*h = a.header
	return len(b) - len(a.body), a.err
}
