package rpcbind

// State is how registering stands.
type State struct {
	Entries int   // to be registered
	Asked   bool  // rpcbind was asked for them
	Err     error // why not all of them are registered: a *TakenError, or rpcbind is away
}

// State gives the state as the last look at rpcbind left it.
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
