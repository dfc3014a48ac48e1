package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// Heard is the event that the peer announced characteristics. It is for requesters of the
// reverse direction, because the forward direction receives the announcements. If the peer
// takes no calls, those that wait end.
func (r *Requester) Heard(v *rpcrdma2.Values, acts []Action) []Action {
	r.chars.Told, r.heard = *v, true
	if r.refusesCalls() {
		acts = r.Withhold(acts)
	}
	return acts
}

// Withhold is the event that no call may be made any more: those that wait end with
// ErrNoBackward, the last one first, so that none goes out instead of another.
func (r *Requester) Withhold(acts []Action) []Action {
	for n := len(r.waiting); n > 0; n = len(r.waiting) {
		o := r.waiting[n-1]
		acts = r.Cancel(o, acts)
		o.Err = ErrNoBackward
	}
	return acts
}

// refusesCalls reports whether the peer announced that it takes no calls.
func (r *Requester) refusesCalls() bool {
	return r.cfg.Reverse && r.heard && r.chars.Told.Backward == rpcrdma2.BackwardNone
}

// PlanReceives plans replies for receives of n bytes. It is for requesters of the reverse
// direction, whose receives the forward direction resizes.
func (r *Requester) PlanReceives(n uint32) {
	r.chars.PlanFor(n)
}
