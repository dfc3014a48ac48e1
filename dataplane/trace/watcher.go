package trace

import (
	"context"
	"errors"
	"io"
	"sync"
)

// Bounds of watchers.
const (
	// MaxWatchers is the number of traces and captures at once.
	MaxWatchers = 16
	// RingBytes is the most memory of a watcher's data, in bytes.
	RingBytes = 8 << 20
	// ringEvents is the most events that wait for a watcher.
	ringEvents = 8192
	// maxSnap is the most bytes kept of one event: a quarter of the ring.
	maxSnap = RingBytes / 4
	// minRing is the least memory of a watcher that is of any use, in bytes.
	minRing = 64 << 10
)

// Reasons to refuse a watcher.
var (
	// ErrTooMany refuses one beyond MaxWatchers.
	ErrTooMany = errors.New("too many traces and captures at once; end another one first")
	// ErrNoMemory refuses one for which the others leave too little memory.
	ErrNoMemory = errors.New("no memory for another trace or capture; end another one first, or raise limits.memory")
)

// Snap is how many bytes are kept of an event.
type Snap struct {
	Send int // of a message
	RDMA int // of an RDMA Read or Write
}

// All keeps everything that a ring can take.
var All = Snap{maxSnap, maxSnap}

// Watcher is a queue of events of some connections.
type Watcher struct {
	hub    *Hub
	filter Filter
	snap   Snap
	since  uint64          // number of the last connection before it began
	named  map[string]bool // connections asked for that are up; under Hub.mu

	mu      sync.Mutex
	ring    ring
	held    bool // the oldest event is the caller's
	dropped uint64
	err     error // nothing is added any more
	wake    chan struct{}
}

// observe adds an event. It is called with the connection's lock held.
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

// notify wakes Next; w.mu is held.
func (w *Watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end lets Next deliver what is there and then fail with err.
func (w *Watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		w.notify()
	}
}

// Next waits for the next event, which is valid until the next call. It fails
// with ctx.Err(), with io.EOF when the connections that the filter names have
// all ended or the watcher is closed.
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

// TryNext is Next without waiting; nil when there is nothing.
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
