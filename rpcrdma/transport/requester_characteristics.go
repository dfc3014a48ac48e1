package transport

// resized implements role.
func (r *Requester) resized() {
	r.do(r.core.Resized(r.rq.below, len(r.rq.bufs), r.acts))
}

// changed implements the Changed action: the role that answers the server uses the Send
// size that the server takes, too.
func (r *Requester) changed() { r.tellCallee() }

// greet sends the first messages once the connection is up.
func (r *Requester) greet() {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	if !r.dead {
		r.do(r.core.Greet(r.acts))
	}
}
