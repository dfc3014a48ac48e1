package connlimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// Class decides whether a holder may use the reserved places. Holders of one key with
// different classes count as if they had different keys.
type Class uint8

// The classes.
const (
	Ordinary Class = iota
	Reserved
)

// Holder is a connection that has or wants a place. Its methods may be called from any
// goroutine.
type Holder interface {
	// Busy reports whether work of the connection is in flight. Its place cannot be taken
	// then. It is called with the table locked: it must not block, nor call the table.
	Busy() bool
	// Evict starts to close the connection, which has lost its place, and does not wait. It
	// is called at most once, perhaps while the connection closes for another reason or
	// just after its Leave.
	Evict(Eviction)
}

// Config configures a table.
type Config struct {
	// Name appears in reasons, for example "listener nfs". It may be empty.
	Name string
	// Parent, if not nil, is a table in which each holder also needs a place.
	Parent *Table
	// Weight is the weight of each place of the table, in the table and in those above it.
	// 0 means 1.
	Weight int
	Limits Limits
}

// Table limits a set of connections. All methods may be called from any goroutine.
type Table struct {
	name   string
	parent *Table
	weight int
	mu     *sync.Mutex // of the whole tree
	start  time.Time

	// Under mu:
	limits   Limits
	all      *group
	ordinary *group // those of all without class Reserved
	owners   map[owner]*group
	fair     fair
	leaving  int // evicted, and not gone yet
	left     uint64
	refused  Counts
	evicted  Counts

	changed chan struct{} // has an element when Run must check the limits again
}

// New makes a table without holders.
func New(now time.Time, cfg Config) *Table {
	t := &Table{name: cfg.Name, parent: cfg.Parent, weight: max(cfg.Weight, 1), limits: cfg.Limits, owners: make(map[owner]*group), fair: newFair(), changed: make(chan struct{}, 1)}
	if p := cfg.Parent; p != nil {
		t.mu, t.start = p.mu, p.start
	} else {
		t.mu, t.start = new(sync.Mutex), now.Add(-1) // no time is 0
	}
	t.all, t.ordinary = &group{t: t, reason: Total}, &group{t: t, reason: Kept}
	return t
}

// Place is a holder's place in a table and in all above it.
type Place struct {
	t      *Table
	holder Holder
	key    Key
	class  Class
	// active is the time of the last use since the tree's start, or 0 if there was none.
	active atomic.Int64

	// Under the tree's mu:
	since   int64     // time of admission
	members []*member // of the groups that count it
	state   placeState
}

type placeState uint8

const (
	held placeState = iota
	leaving
	gone
)

// Touch records that the connection is in use. It is one atomic store.
func (p *Place) Touch(now time.Time) { p.active.Store(int64(now.Sub(p.t.start))) }

// Admit gives h a place. It evicts other holders if necessary, and calls their Evict before
// it returns. The error is a *RefusedError; then nobody was evicted.
func (t *Table) Admit(now time.Time, key Key, class Class, h Holder) (*Place, error) {
	p := &Place{t: t, holder: h, key: key, class: class}
	t.mu.Lock()
	p.since = int64(now.Sub(t.start))
	victims, refused := t.makeRoom(p)
	if refused == nil {
		p.enter()
	}
	t.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	victims.tell()
	return p, nil
}

// Leave frees the place, if it was not freed already.
func (p *Place) Leave() {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	if p.state != gone {
		for t := p.t; t != nil; t = t.parent {
			t.left++
		}
	}
	switch p.state {
	case held:
		p.exit()
	case leaving:
		p.t.addLeaving(-1)
	}
	p.state = gone
}

// Left returns how many holders have left since the table was made.
func (t *Table) Left() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left
}

// Limits returns the current limits.
func (t *Table) Limits() Limits {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limits
}

// SetLimits changes the limits. A caller that does not use Run must call Age afterwards.
func (t *Table) SetLimits(l Limits) {
	t.mu.Lock()
	t.limits = l
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// SetTotal changes Limits.Total.
func (t *Table) SetTotal(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits.Total = n
}

// Stats are the statistics of a table.
type Stats struct {
	Held     int    // places taken
	Reserved int    // of Held, by holders of class Reserved
	Leaving  int    // evicted, and not gone yet
	Keys     int    // keys that hold places; a key with places of both classes counts twice
	Refused  Counts // by the table's limits
	Evicted  Counts // holders of the table, also by limits of the tables above
}

// Stats returns the table's statistics.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{
		Held: t.all.size(), Reserved: t.all.size() - t.ordinary.size(), Leaving: t.leaving, Keys: len(t.owners),
		Refused: t.refused, Evicted: t.evicted,
	}
}
