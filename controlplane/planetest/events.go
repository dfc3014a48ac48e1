package planetest

import (
	"slices"

	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
)

// subscription is a bounded stream of events; all fields but ch are under
// Plane.mu.
type subscription struct {
	p       *Plane
	ch      chan dataplane.Event
	ended   bool
	changes bool
	err     error
}

// Subscribe implements watch.Source.
func (p *Plane) Subscribe(buffer int) watch.Subscription {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &subscription{p: p, ch: make(chan dataplane.Event, buffer), changes: true}
	p.subs = append(p.subs, s)
	if p.over {
		s.end(dataplane.ErrShutdown)
	}
	return s
}

// WantsChanges says whether a subscription that lives takes ConnChanged.
func (p *Plane) WantsChanges() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.subs, func(s *subscription) bool { return !s.ended && s.changes })
}

// publish hands e to the subscribers that have room; p.mu is held.
func (p *Plane) publish(e dataplane.Event) {
	for _, s := range p.subs {
		if s.ended || e.Type == dataplane.ConnChanged && !s.changes {
			continue
		}
		select {
		case s.ch <- e:
		default:
			s.end(dataplane.ErrSlow)
		}
	}
}

// Lose ends all subscriptions as if their readers had been too slow.
func (p *Plane) Lose() { p.endAll(dataplane.ErrSlow) }

// Shutdown ends all subscriptions for good.
func (p *Plane) Shutdown() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.endAll(dataplane.ErrShutdown)
}

func (p *Plane) endAll(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.subs {
		s.end(err)
	}
}

// end ends s once; Plane.mu is held.
func (s *subscription) end(err error) {
	if !s.ended {
		s.ended, s.err = true, err
		close(s.ch)
	}
}

// Events implements watch.Subscription.
func (s *subscription) Events() <-chan dataplane.Event { return s.ch }

// Changes implements watch.Subscription.
func (s *subscription) Changes(want bool) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.changes = want
}

// Err implements watch.Subscription.
func (s *subscription) Err() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.err
}

// Close implements watch.Subscription.
func (s *subscription) Close() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.end(nil)
}
