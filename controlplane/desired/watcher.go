package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/watch"
)

// Bounds of watching.
const (
	maxWatchers = 64
	watchQueue  = 1024 // entries waiting for one watcher
)

// Watcher is one queue of revisions.
type Watcher struct {
	s        *Store
	entries  chan *history.Entry
	done     chan struct{}
	err      error // set before done is closed
	revision uint32
}

// Watch adds a watcher of the revisions to come, to be closed by the caller.
// watch.ErrTooMany, watch.ErrShutdown.
func (s *Store) Watch() (*Watcher, error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	switch {
	case s.over:
		return nil, watch.ErrShutdown
	case len(s.watchers) >= maxWatchers:
		return nil, watch.ErrTooMany
	}
	w := &Watcher{
		s: s, entries: make(chan *history.Entry, watchQueue), done: make(chan struct{}), revision: s.Revision(),
	}
	s.watchers[w] = struct{}{}
	return w, nil
}

// Revision is the one after which the watcher sees all.
func (w *Watcher) Revision() uint32 { return w.revision }

// Entries yields each new revision, and once more a revision that was
// confirmed or rolled back within its confirm window. Entries are shared and
// not to be changed. The channel is never closed; Done says when nothing more
// comes.
func (w *Watcher) Entries() <-chan *history.Entry { return w.entries }

// Done is closed when the watcher was dropped or closed. What is still queued
// then is not worth delivering.
func (w *Watcher) Done() <-chan struct{} { return w.done }

// Err says why the watcher was dropped, after Done: watch.ErrSlow or
// watch.ErrShutdown; nil after Close.
func (w *Watcher) Err() error { return w.err }

// Close ends the watcher. It may be called more than once.
func (w *Watcher) Close() {
	w.s.publishing.Lock()
	defer w.s.publishing.Unlock()
	w.s.drop(w, nil)
}

// publish hands e to the watchers and drops those without room; publishing is
// held.
func (s *Store) publish(e *history.Entry) {
	for w := range s.watchers {
		select {
		case w.entries <- e:
		default:
			s.drop(w, watch.ErrSlow)
		}
	}
}

// drop ends a watcher once; publishing is held.
func (s *Store) drop(w *Watcher, err error) {
	if _, ok := s.watchers[w]; ok {
		delete(s.watchers, w)
		w.err = err
		close(w.done)
	}
}

// EndWatchers ends all watchers with watch.ErrShutdown, and lets no more come.
func (s *Store) EndWatchers() {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.over = true
	for w := range s.watchers {
		s.drop(w, watch.ErrShutdown)
	}
}
