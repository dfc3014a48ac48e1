package dataplane

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSlow means that a subscription ended because its reader was slower than the events.
var ErrSlow = errors.New("subscriber is too slow")

// Subscriptions are those to the events of a data plane. The zero value has none.
type Subscriptions struct {
	mu     sync.Mutex
	open   map[*Subscription]struct{}
	over   bool
	wanted atomic.Int32 // number of open that take ConnChanged; written under mu
}

// Subscription is a bounded stream of events.
type Subscription struct {
	of      *Subscriptions
	ch      chan Event
	changes bool // whether it takes ConnChanged; under of.mu
	err     error
}

// Subscribe streams the events from now on. At most buffer of them wait to be read. If the
// buffer fills up, the subscription ends with ErrSlow. The data plane never waits for a
// subscriber. To see every connection, subscribe first and then list the connections. An
// event may then report what the list already shows.
func (d *Dataplane) Subscribe(buffer int) *Subscription { return d.subs.Subscribe(buffer) }

// Subscribe adds a subscription; see Dataplane.Subscribe.
func (a *Subscriptions) Subscribe(buffer int) *Subscription {
	s := &Subscription{of: a, ch: make(chan Event, max(buffer, 1)), changes: true}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = make(map[*Subscription]struct{})
	}
	a.open[s] = struct{}{}
	a.wanted.Add(1)
	if a.over {
		s.dropLocked(ErrShutdown)
	}
	return s
}

// Changes selects whether the subscription receives ConnChanged; initially it does. A change
// of settings makes one event for each connection, and none while no subscription wants
// them. If a caller turns the events on and then lists the connections, it sees every change
// in the list or as an event.
func (s *Subscription) Changes(want bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if _, ok := s.of.open[s]; ok {
		s.wantLocked(want)
	}
}

func (s *Subscription) wantLocked(want bool) {
	if s.changes == want {
		return
	}
	s.changes = want
	if want {
		s.of.wanted.Add(1)
	} else {
		s.of.wanted.Add(-1)
	}
}

// Events returns the channel of events, in order. The channel is closed when the
// subscription ends. Err then returns why.
func (s *Subscription) Events() <-chan Event { return s.ch }

// Err returns nil while the subscription is open and after Close. It returns ErrSlow when the
// buffer filled up, and ErrShutdown when the data plane ended.
func (s *Subscription) Err() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return s.err
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.dropLocked(nil)
}

func (s *Subscription) dropLocked(err error) {
	if _, ok := s.of.open[s]; ok {
		s.wantLocked(false)
		delete(s.of.open, s)
		s.err = err
		close(s.ch)
	}
}

// Publish sends an event to the subscribers that take it. A subscriber without room loses
// its subscription.
func (a *Subscriptions) Publish(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.open {
		if e.Type == ConnChanged && !s.changes {
			continue
		}
		select {
		case s.ch <- e:
		default:
			s.dropLocked(ErrSlow)
		}
	}
}

// Wanted reports whether a subscriber takes ConnChanged.
func (a *Subscriptions) Wanted() bool { return a.wanted.Load() > 0 }

// End ends all subscriptions with an error. After ErrShutdown, no further one is open.
func (a *Subscriptions) End(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = a.over || errors.Is(err, ErrShutdown)
	for s := range a.open {
		s.dropLocked(err)
	}
}

// changed reports a change of a connection. The change must be visible before the call.
func (d *Dataplane) changed(c *conn) {
	if d.subs.Wanted() {
		d.subs.Publish(Event{Type: ConnChanged, Time: time.Now(), Conn: c.info()})
	}
}
