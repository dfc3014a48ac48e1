package planetest

import "github.com/rdmad/rdmad/dataplane"

// Subscribe implements watch.Source.
func (p *Plane) Subscribe(buffer int) *dataplane.Subscription { return p.subs.Subscribe(buffer) }

// WantsChanges reports whether an active subscription takes ConnChanged.
func (p *Plane) WantsChanges() bool { return p.subs.Wanted() }

// Lose ends all subscriptions as if their readers had been too slow.
func (p *Plane) Lose() { p.subs.End(dataplane.ErrSlow) }

// Shutdown ends all subscriptions permanently.
func (p *Plane) Shutdown() { p.subs.End(dataplane.ErrShutdown) }
