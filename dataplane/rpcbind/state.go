package rpcbind

// State is the state of the registrations.
type State struct {
	Entries int   // to be registered
	Asked   bool  // rpcbind was asked for them
	Err     error // why not all of them are registered: a *TakenError, or rpcbind is away
}

// State returns the state after the last check of rpcbind.
func (r *Registrar) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed {
		return State{Entries: len(r.wanted)}
	}
	return r.seen
}

// saw notes how a look ended.
func (r *Registrar) saw(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = State{Entries: len(r.entries), Asked: true, Err: err}
}
