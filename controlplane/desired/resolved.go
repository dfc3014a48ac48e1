package desired

import (
	"sync"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

// resolved is what is in force on connections in one state. Connections of a
// class share it, but for those with settings of their own.
type resolved struct {
	state *settings.State

	mu     sync.Mutex
	shared perClass[*inForce]
}

// inForce is what is in force on a class, in both forms.
type inForce struct {
	values   settings.Values
	settings *rpcrdma.Settings
}

func newResolved(state *settings.State) *resolved { return &resolved{state: state} }

// resolve is a dataplane.Resolver.
func (r *resolved) resolve(key dataplane.ConnKey) *rpcrdma.Settings {
	r.mu.Lock()
	all := r.shared.get(key, r.class)
	r.mu.Unlock()
	own := r.state.Own(key.ID)
	if own == nil {
		return all.settings
	}
	v := all.values
	v.Overlay(own)
	return v.Settings()
}

func (r *resolved) class(t settings.Target) *inForce {
	v := r.state.Resolve(t)
	return &inForce{v, v.Settings()}
}
