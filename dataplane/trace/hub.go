package trace

import (
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Hub brings connections and watchers together. The zero Hub is ready; all
// methods may be called from any goroutine.
type Hub struct {
	mu       sync.Mutex
	conns    map[*Conn]struct{}
	watchers []*Watcher
	last     uint64 // Info.Number given out
	memory   int    // of all watchers together, in bytes
	bounded  bool   // memory is set
}

// SetMemory bounds the memory of all watchers together, in bytes. Those that there
// are keep what they have.
func (h *Hub) SetMemory(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memory, h.bounded = int(n), true
}

// Memory is what all watchers have, in bytes.
func (h *Hub) Memory() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.used())
}

// used is what all watchers have; h.mu is held.
func (h *Hub) used() (n int) {
	for _, w := range h.watchers {
		n += w.ring.memory()
	}
	return n
}

// share is the memory for one more watcher: a quarter of what the others leave, so
// that there is some for MaxWatchers; h.mu is held.
func (h *Hub) share() (int, error) {
	if !h.bounded {
		return wholeRing, nil
	}
	left := h.memory - h.used()
	if left < minRing {
		return 0, ErrNoMemory
	}
	return min(max(left/4, minRing), wholeRing), nil
}

// Conn is a connection that can be looked at.
type Conn struct {
	Info
	hub   *Hub
	tap   *rpcrdma.Tap
	late  bool // it was not known from its beginning
	ended atomic.Bool
}

// Add makes a connection known. Its Number is set.
func (h *Hub) Add(info Info) *Conn { return h.add(&Conn{Info: info, tap: new(rpcrdma.Tap)}) }

// AddTapped is Add for a connection that has its tap already, and may have
// done something with it.
func (h *Hub) AddTapped(info Info, tap *rpcrdma.Tap) *Conn {
	return h.add(&Conn{Info: info, tap: tap, late: true})
}

func (h *Hub) add(c *Conn) *Conn {
	c.Local, c.Peer, c.hub = unmap(c.Local), unmap(c.Peer), h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		h.conns = make(map[*Conn]struct{})
	}
	h.last++
	c.Number = h.last
	h.conns[c] = struct{}{}
	h.attach(c)
	return c
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// Tap is the place for the transport to call.
func (c *Conn) Tap() *rpcrdma.Tap { return c.tap }

// Ended says whether the connection has ended.
func (c *Conn) Ended() bool { return c.ended.Load() }

// Close tells that the connection has ended. Watchers of this connection
// alone end, too. It may be called more than once.
func (c *Conn) Close() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.ended.Store(true)
	c.tap.Set(nil)
	delete(h.conns, c)
	for _, w := range h.watchers {
		if w.named[c.ID] {
			if delete(w.named, c.ID); len(w.named) == 0 {
				w.end(io.EOF)
			}
		}
	}
}

// attach lets a connection be seen by those who want to; h.mu is held.
func (h *Hub) attach(c *Conn) {
	a := &audience{conn: c}
	for _, w := range h.watchers {
		if w.filter.Match(&c.Info) {
			a.watchers = append(a.watchers, w)
		}
	}
	if len(a.watchers) == 0 {
		c.tap.Set(nil)
		return
	}
	c.tap.Set(a)
}

// Missing gives the first connection that the filter names and that is not
// up, "" when there is none.
func (h *Hub) Missing(f *Filter) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range f.Connections {
		if !h.up(id) {
			return id
		}
	}
	return ""
}

// up says whether a connection is up; h.mu is held.
func (h *Hub) up(id string) bool {
	for c := range h.conns {
		if c.ID == id {
			return true
		}
	}
	return false
}

// Watch adds a watcher, to be closed by the caller. It fails with ErrTooMany or
// ErrNoMemory.
// Connections that the filter names and that are not up any more are
// ignored; if none of them is left, the watcher has ended.
func (h *Hub) Watch(f Filter, s Snap) (*Watcher, error) {
	w := &Watcher{hub: h, filter: f, wake: make(chan struct{}, 1), named: make(map[string]bool)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) >= MaxWatchers {
		return nil, ErrTooMany
	}
	for _, id := range f.Connections {
		if h.up(id) {
			w.named[id] = true
		}
	}
	if len(f.Connections) > 0 && len(w.named) == 0 {
		w.err = io.EOF
		return w, nil
	}
	share, err := h.share()
	if err != nil {
		return nil, err
	}
	w.ring, w.since = ringOf(share), h.last
	w.snap = Snap{min(s.Send, len(w.ring.buf)/4), min(s.RDMA, len(w.ring.buf)/4)}
	h.watchers = append(h.watchers, w)
	for c := range h.conns {
		h.attach(c)
	}
	return w, nil
}

// Watchers is the number of watchers there are.
func (h *Hub) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}

// forget takes a watcher out.
func (h *Hub) forget(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.watchers, w)
	if i < 0 {
		return
	}
	h.watchers = slices.Delete(h.watchers, i, i+1)
	for c := range h.conns {
		h.attach(c)
	}
}

// audience are the watchers of one connection. It never changes.
type audience struct {
	conn     *Conn
	watchers []*Watcher
}

// Observe implements rpcrdma.Observer.
func (a *audience) Observe(o *rpcrdma.Operation) {
	e := Event{Time: time.Now(), Conn: a.conn, Op: o.Op, In: o.In, RKey: o.RKey, Addr: o.Addr, Length: o.Length}
	for _, w := range a.watchers {
		w.observe(&e, o.Data)
	}
}
