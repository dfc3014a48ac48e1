package dataplane

import (
	"errors"
	"sync"
	"time"
)

// ErrSlow ends a subscription whose reader fell behind its buffer.
var ErrSlow = errors.New("subscriber is too slow")

// Subscription is a bounded stream of events.
type Subscription struct {
	d       *Dataplane
	ch      chan Event
	changes bool // it takes ConnChanged; d.mu is held

	mu  sync.Mutex
	err error
}

// Subscribe streams the events from now on, at most buffer of them waiting
// to be read. A subscriber that lets them fill up loses its subscription
// (Err is ErrSlow) and nobody waits for it. To see every connection,
// subscribe first and list then: an event may then tell what the list says
// already.
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

// Changes says whether the subscription is to have ConnChanged, as it has at
// first. A change of settings makes one for each connection, which costs
// nothing while nobody wants them. Whoever lists the connections after
// wanting them sees every change in the list or as an event.
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

// Events yields the events in order. It is closed when the subscription
// ends; Err tells why.
func (s *Subscription) Events() <-chan Event { return s.ch }

// Err is nil while the subscription lives and after Close, ErrSlow when the
// reader fell behind, ErrShutdown when the data plane ended.
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

// publish hands an event to every subscriber that has room.
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

// changed reports a change of a connection that was made before the call.
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
