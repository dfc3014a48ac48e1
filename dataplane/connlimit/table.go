package connlimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// Class says whether a holder may use the places that are reserved. Holders of one
// key and different classes count as if they had different keys.
type Class uint8

// The classes.
const (
	Ordinary Class = iota
	Reserved
)

// Holder is a connection that has a place, or wants one. Its methods are called from any goroutine.
type Holder interface {
	// Busy says that work of the connection is in flight, so that its place
	// can't be taken. It is called with the table locked: it must not block,
	// nor call the table.
	Busy() bool
	// Evict tells the holder that its place is lost. It starts to close the
	// connection and does not wait for it. It is called once at most, perhaps while
	// the connection closes for another reason or just after its Leave.
	Evict(Eviction)
}

// Config is what a table is made with.
type Config struct {
	// Name appears in reasons, such as "listener nfs"; "" for none.
	Name string
	// Parent, or nil, is a table in which each holder needs a place, too.
	Parent *Table
	Limits Limits
}

// Table bounds a set of connections. All methods may be called from any goroutine.
type Table struct {
	name   string
	parent *Table
	mu     *sync.Mutex // of the whole tree
	start  time.Time

	// Under mu:
	limits   Limits
	all      *group
	ordinary *group // those of all that are not of class Reserved
	owners   map[owner]*group
	fair     fair
	leaving  int // evicted, and not gone yet
	refused  Counts
	evicted  Counts

	changed chan struct{} // has an element when Run has to look at the limits
}

// New makes a table without holders.
func New(now time.Time, cfg Config) *Table {
	t := &Table{name: cfg.Name, parent: cfg.Parent, limits: cfg.Limits, owners: make(map[owner]*group), fair: newFair(), changed: make(chan struct{}, 1)}
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
	// active is the time of the last use since the tree's start; 0 if there was none.
	active atomic.Int64

	// Under the tree's mu:
	since   int64     // when it was admitted
	members []*member // of the groups that count it
	state   placeState
}

type placeState uint8

const (
	held placeState = iota
	leaving
	gone
)

// Touch says that the connection is in use. It is one atomic store.
func (p *Place) Touch(now time.Time) { p.active.Store(int64(now.Sub(p.t.start))) }

// Admit gives h a place, and evicts other holders if it must: their Evict is called
// before Admit returns. The error is a *RefusedError; then nobody was evicted.
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
	switch p.state {
	case held:
		p.exit()
	case leaving:
		p.t.addLeaving(-1)
	}
	p.state = gone
}

// Limits are those in force.
func (t *Table) Limits() Limits {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limits
}

// SetLimits changes the limits. A caller that doesn't use Run calls Age
// afterwards.
func (t *Table) SetLimits(l Limits) {
	t.mu.Lock()
	t.limits = l
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// SetTotal changes one of the limits.
func (t *Table) SetTotal(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits.Total = n
}

// Stats is a table as operators see it.
type Stats struct {
	Held             int // places taken
	Reserved         int // of them, by holders of class Reserved
	Leaving          int // evicted, and not gone yet
	Keys             int // keys that hold places, one of both classes twice
	Refused, Evicted Counts
}

// Stats counts.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{
		Held: t.all.size(), Reserved: t.all.size() - t.ordinary.size(), Leaving: t.leaving, Keys: len(t.owners),
		Refused: t.refused, Evicted: t.evicted,
	}
}
