package trace

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Bounds of watchers.
const (
	// MaxWatchers is the most traces and captures at the same time.
	MaxWatchers = 16
	// RingBytes is the most memory for one watcher's data, in bytes.
	RingBytes = 8 << 20
	// ringEvents is the most events that wait for one watcher.
	ringEvents = 8192
	// maxSnap is the most bytes kept of one event: a quarter of the ring.
	maxSnap = RingBytes / 4
	// minRing is the least useful memory of a watcher, in bytes.
	minRing = 64 << 10
)

// Errors of Watch and WatchJudged.
var (
	// ErrTooMany means that there are already MaxWatchers watchers.
	ErrTooMany = errors.New("too many traces and captures at once; end another one first")
	// ErrNoMemory means that the other watchers leave too little memory.
	ErrNoMemory = errors.New("no memory for another trace or capture; end another one first, or raise limits.memory")
)

// Snap is the snap length: how many bytes of an event are kept.
type Snap struct {
	Send int // of a message
	RDMA int // of an RDMA Read or Write
}

// All keeps all bytes that a ring can hold.
var All = Snap{maxSnap, maxSnap}

// Watcher is a queue of the events of some connections.
type Watcher struct {
	hub    *Hub
	filter Filter
	snap   Snap
	since  uint64          // number of the last connection before the watcher began
	named  map[string]bool // named connections that are open; guarded by Hub.mu
	// judging is the memory of the referees of its events, in bytes.
	judging int

	mu      sync.Mutex
	ring    ring
	held    bool // the caller holds the oldest event
	dropped uint64
	err     error // why no events are added any more
	wake    chan struct{}
}

// observe adds an event. The caller holds the connection's lock.
func (w *Watcher) observe(e *Event, data [][]byte) {
	snap := w.snap.RDMA
	if e.send() {
		snap = w.snap.Send
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Midway, e.Missing = e.Conn.late || e.Conn.Number <= w.since, w.dropped
	switch {
	case w.err != nil:
		return
	case !w.ring.push(e, data, snap):
		w.dropped++
		return
	}
	w.notify()
}

// notify wakes Next. w.mu is held.
func (w *Watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end makes Next return the waiting events and then err.
func (w *Watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		w.notify()
	}
}

// Next waits for the next event. The event is valid until the next call of Next
// or TryNext. The error is ctx.Err(), or io.EOF if all connections that the
// filter names have ended or the watcher is closed.
func (w *Watcher) Next(ctx context.Context) (*Event, error) {
	for {
		if e, err := w.TryNext(); e != nil || err != nil {
			return e, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TryNext is Next without waiting. It returns nil and no error if no event
// waits.
func (w *Watcher) TryNext() (*Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		w.ring.pop()
		w.held = false
	}
	if w.ring.n == 0 {
		return nil, w.err
	}
	w.held = true
	e := w.ring.oldest()
	e.Dropped = w.dropped
	return e, nil
}

// Close ends the watcher. It may be called more than once.
func (w *Watcher) Close() {
	w.hub.forget(w)
	w.end(io.EOF)
}
