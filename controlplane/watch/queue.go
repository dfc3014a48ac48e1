package watch

import (
	"context"
	"sync"
)

// Queues passes values to any number of watchers, each with a bounded queue of its own. Nothing
// waits for a watcher: one whose queue is full is dropped.
type Queues[E any] struct {
	length int
	// wanted, if not nil, is called with mu held: whether there is a watcher.
	wanted func(bool)

	mu   sync.Mutex
	open map[*Queue[E]]struct{}
	over bool
	past uint64 // see Past
}

// NewQueues returns queues of a length.
func NewQueues[E any](length int) *Queues[E] {
	return &Queues[E]{length: length, open: make(map[*Queue[E]]struct{})}
}

// Watch adds a watcher, which the caller closes. The error is ErrShutdown.
func (q *Queues[E]) Watch() (*Queue[E], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return nil, ErrShutdown
	}
	if len(q.open) == 0 {
		q.past++
	}
	w := &Queue[E]{of: q, past: q.past, events: make(chan E, q.length), done: make(chan struct{})}
	q.open[w] = struct{}{}
	if q.wanted != nil {
		q.wanted(true)
	}
	return w, nil
}

// Past counts everything that a later watcher does not get: values, and times without a
// watcher, in which values may be lost. A watcher whose own Past is not larger misses nothing
// of what happened since this call.
func (q *Queues[E]) Past() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.past
}

// Spread passes e to the watchers and drops those whose queue is full.
func (q *Queues[E]) Spread(e E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.past++
	for w := range q.open {
		select {
		case w.events <- e:
		default:
			q.dropLocked(w, ErrSlow)
		}
	}
}

// End ends all watchers with ErrShutdown, and refuses new ones.
func (q *Queues[E]) End() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
	q.dropAll(ErrShutdown)
}

func (q *Queues[E]) dropAll(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := range q.open {
		q.dropLocked(w, err)
	}
}

func (q *Queues[E]) dropLocked(w *Queue[E], err error) {
	if _, ok := q.open[w]; !ok {
		return
	}
	delete(q.open, w)
	w.err = err
	close(w.done)
	if len(q.open) == 0 && q.wanted != nil {
		q.wanted(false)
	}
}

// Queue is the queue of one watcher.
type Queue[E any] struct {
	of     *Queues[E]
	past   uint64
	events chan E
	done   chan struct{}
	err    error // set before done is closed
}

// Events returns the channel of events, in order. Other watchers share the events, which must
// not be changed. The channel is never closed; Done is closed when no more events come.
func (w *Queue[E]) Events() <-chan E { return w.events }

// Past returns the Past of the queues at the time when the watcher was added.
func (w *Queue[E]) Past() uint64 { return w.past }

// Done is closed when the watcher was dropped or closed. The events that are still queued then
// should be ignored.
func (w *Queue[E]) Done() <-chan struct{} { return w.done }

// Err returns, after Done, why the watcher was dropped: ErrSlow or ErrShutdown, or nil after
// Close.
func (w *Queue[E]) Err() error { return w.err }

// Each calls f with each event. It returns the error of f, that of ctx when it ends, or Err.
func (w *Queue[E]) Each(ctx context.Context, f func(E) error) error {
	for {
		select {
		case e := <-w.events:
			if err := f(e); err != nil {
				return err
			}
		case <-w.done:
			return w.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the watcher. It may be called more than once.
func (w *Queue[E]) Close() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.dropLocked(w, nil)
}
