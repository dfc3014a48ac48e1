package desired

import (
	"sync"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

// resolved is what is in force on connections in one state. Connections of a
// class share it.
type resolved struct {
	state *settings.State

	mu     sync.Mutex
	shared perClass[*rpcrdma.Settings]
}

func newResolved(state *settings.State) *resolved {
	return &resolved{state: state, shared: make(perClass[*rpcrdma.Settings])}
}

// resolve is a dataplane.Resolver.
func (r *resolved) resolve(key dataplane.ConnKey) *rpcrdma.Settings {
	own := hasOwn(r.state, key.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shared.get(key, own, r.settings)
}

func (r *resolved) settings(t settings.Target) *rpcrdma.Settings {
	v := r.state.Resolve(t)
	return v.Settings()
}
