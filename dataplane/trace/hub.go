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

// Hub connects connections and watchers. The zero Hub is ready for use. Its
// methods are safe for concurrent use.
type Hub struct {
	mu       sync.Mutex
	conns    map[*Conn]struct{}
	watchers []*Watcher
	last     uint64 // last Info.Number assigned
	memory   int    // of all watchers together, in bytes
	bounded  bool   // memory was set
}

// SetMemory limits the memory of all watchers together, to n bytes. Existing
// watchers keep their memory.
func (h *Hub) SetMemory(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memory, h.bounded = int(n), true
}

// Memory returns the memory of all watchers, in bytes.
func (h *Hub) Memory() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.used())
}

// used returns the memory of all watchers. h.mu is held.
func (h *Hub) used() (n int) {
	for _, w := range h.watchers {
		n += w.ring.memory() + w.judging
	}
	return n
}

// share returns the memory for each part of one more watcher, in bytes. All
// parts together get a quarter of the memory that is left, so that MaxWatchers
// find some. h.mu is held.
func (h *Hub) share(parts int) (int, error) {
	if !h.bounded {
		return wholeRing, nil
	}
	left := h.memory - h.used()
	if left < parts*minRing {
		return 0, ErrNoMemory
	}
	return min(max(left/4/parts, minRing), wholeRing), nil
}

// Conn is a connection that can be watched.
type Conn struct {
	Info
	hub   *Hub
	tap   *rpcrdma.Tap
	late  bool // it was added after its start
	ended atomic.Bool
}

// Add adds a connection and sets its Number.
func (h *Hub) Add(info Info) *Conn { return h.add(&Conn{Info: info, tap: new(rpcrdma.Tap)}) }

// AddTapped is Add for a connection that already has a tap, and may already
// have had events.
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

// Tap returns the tap that the transport calls.
func (c *Conn) Tap() *rpcrdma.Tap { return c.tap }

// Ended reports whether the connection has ended.
func (c *Conn) Ended() bool { return c.ended.Load() }

// Close records that the connection has ended. A watcher of only this
// connection also ends. Close may be called more than once.
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

// attach sets the watchers of a connection. h.mu is held.
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

// Missing returns the first connection that the filter names and that is not
// open, or "".
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

// up reports whether a connection is open. h.mu is held.
func (h *Hub) up(id string) bool {
	for c := range h.conns {
		if c.ID == id {
			return true
		}
	}
	return false
}

// Watch adds a watcher. The caller must close it. The error is ErrTooMany or
// ErrNoMemory. Watch ignores connections that the filter names and that are no
// longer open. If none of them is left, the watcher has already ended.
func (h *Hub) Watch(f Filter, s Snap) (*Watcher, error) { return h.watch(f, s, 1) }

// WatchJudged is Watch with all bytes, and a Judge for the events. The referees
// get as much memory as the watcher.
func (h *Hub) WatchJudged(f Filter) (*Watcher, *Judge, error) {
	w, err := h.watch(f, All, 2)
	if err != nil {
		return nil, nil, err
	}
	return w, NewJudge(w.judging), nil
}

// watch adds a watcher. Its memory is one of several equal parts. The other
// parts are for referees.
func (h *Hub) watch(f Filter, s Snap, parts int) (*Watcher, error) {
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
	share, err := h.share(parts)
	if err != nil {
		return nil, err
	}
	w.ring, w.judging, w.since = ringOf(share), (parts-1)*share, h.last
	w.snap = Snap{min(s.Send, len(w.ring.buf)/4), min(s.RDMA, len(w.ring.buf)/4)}
	h.watchers = append(h.watchers, w)
	for c := range h.conns {
		h.attach(c)
	}
	return w, nil
}

// Watchers returns the number of watchers.
func (h *Hub) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}

// forget removes a watcher.
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

// audience holds the watchers of one connection. It is immutable.
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
