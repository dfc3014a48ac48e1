package dataplane

import (
	"errors"
	"sync"
	"time"
)

// ErrSlow means that a subscription ended because its reader was slower than the events.
var ErrSlow = errors.New("subscriber is too slow")

// Subscription is a bounded stream of events.
type Subscription struct {
	d       *Dataplane
	ch      chan Event
	changes bool // whether it takes ConnChanged; under d.mu

	mu  sync.Mutex
	err error
}

// Subscribe streams the events from now on. At most buffer of them wait to be read. If the
// buffer fills up, the subscription ends with ErrSlow. The data plane never waits for a
// subscriber. To see every connection, subscribe first and then list the connections. An
// event may then report what the list already shows.
func (d *Dataplane) Subscribe(buffer int) *Subscription {
	s := &Subscription{d: d, ch: make(chan Event, max(buffer, 1)), changes: true}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subs == nil {
		s.end(ErrShutdown)
		return s
	}
	d.subs[s] = struct{}{}
	d.changesWanted.Add(1)
	return s
}

// Changes selects whether the subscription receives ConnChanged; initially it does. A change
// of settings makes one event for each connection, and none while no subscription wants
// them. If a caller turns the events on and then lists the connections, it sees every change
// in the list or as an event.
func (s *Subscription) Changes(want bool) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if _, ok := s.d.subs[s]; ok {
		s.d.wantLocked(s, want)
	}
}

func (d *Dataplane) wantLocked(s *Subscription, want bool) {
	if s.changes == want {
		return
	}
	s.changes = want
	if want {
		d.changesWanted.Add(1)
	} else {
		d.changesWanted.Add(-1)
	}
}

// Events returns the channel of events, in order. The channel is closed when the
// subscription ends. Err then returns why.
func (s *Subscription) Events() <-chan Event { return s.ch }

// Err returns nil while the subscription is open and after Close. It returns ErrSlow when the
// buffer filled up, and ErrShutdown when the data plane ended.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.dropLocked(s, nil)
}

func (s *Subscription) end(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	close(s.ch)
}

func (d *Dataplane) dropLocked(s *Subscription, err error) {
	if _, ok := d.subs[s]; ok {
		d.wantLocked(s, false)
		delete(d.subs, s)
		s.end(err)
	}
}

// publish sends an event to the subscribers that take it. A subscriber without room loses
// its subscription.
func (d *Dataplane) publish(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.subs {
		if e.Type == ConnChanged && !s.changes {
			continue
		}
		select {
		case s.ch <- e:
		default:
			d.dropLocked(s, ErrSlow)
		}
	}
}

// changed reports a change of a connection. The change must be visible before the call.
func (d *Dataplane) changed(c *conn) {
	if d.changesWanted.Load() > 0 {
		d.publish(Event{Type: ConnChanged, Time: time.Now(), Conn: c.info()})
	}
}

func (d *Dataplane) endSubscriptions() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.subs {
		d.dropLocked(s, ErrShutdown)
	}
	d.subs = nil
}
