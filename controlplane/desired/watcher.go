package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/watch"
)

// watchQueue is the most entries that wait for one watcher.
const watchQueue = 1024

// Watcher is one queue of revisions. Its events are each new revision, and again a revision
// that was confirmed or rolled back within its confirm window.
type Watcher = watch.Queue[*history.Entry]

// Watch adds a watcher of future revisions. The caller closes it. The error is
// watch.ErrShutdown.
func (s *Store) Watch() (*Watcher, error) { return s.watchers.Watch() }

// EndWatchers ends all watchers with watch.ErrShutdown, and refuses new ones.
func (s *Store) EndWatchers() { s.watchers.End() }
