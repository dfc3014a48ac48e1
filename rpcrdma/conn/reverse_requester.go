package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// Heard is the event that the peer announced characteristics. It is for requesters of the
// reverse direction, because the forward direction receives the announcements. Afterwards
// the sizes given to Connected may be smaller than those that every peer of the version takes.
func (r *Requester) Heard(v *rpcrdma2.Values) { r.chars.Told, r.heard = *v, true }

// PlanReceives plans replies for receives of n bytes. It is for requesters of the reverse
// direction, whose receives the forward direction resizes.
func (r *Requester) PlanReceives(n uint32) {
	r.chars.PlanFor(n)
}
