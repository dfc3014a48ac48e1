package transport

// resized implements role.
func (r *Requester) resized() {
	r.acts = r.core.Resized(r.rq.below, len(r.rq.bufs), r.acts)
	r.carryOut()
}

// changed implements the Changed action: what the server takes in one Send is so
// for the role that answers it, too.
func (r *Requester) changed() { r.tellCallee() }

// greet begins to talk, once the connection is up.
func (r *Requester) greet() {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	if !r.dead {
		r.acts = r.core.Greet(r.acts)
		r.carryOut()
	}
}
