// Package desired keeps the settings that operators want, changes them one after another, and
// has the data plane apply them.
//
// Readers, above all the data plane's resolver, take a snapshot without a lock. A change is
// checked against the model and against the existing listeners and connections. It is then
// stored, published as a whole, and applied by the data plane, which returns the effect on each
// connection.
//
// A new store is in memory only. Open gives it a file that survives a restart. Close ends it.
package desired

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Dataplane applies settings.
type Dataplane interface {
	Connection(id string) (dataplane.ConnInfo, error)
	Listeners() []dataplane.ListenerInfo
	Connectors() []dataplane.ConnectorInfo
	ApplySettings(u dataplane.Update, report func(*dataplane.Fact))
	PreviewSettings(u dataplane.Update, report func(*dataplane.Fact))
}

// Store holds the desired settings. All methods may be called from any goroutine. Lock order:
// changing, publishing, then the data plane's.
type Store struct {
	dp  Dataplane
	log *slog.Logger

	// changing makes changes one after another, from check to effects, so
	// that the effects are those of one revision. It guards what is stored.
	changing sync.Mutex
	disk     Disk // nil in memory
	closed   bool
	seen     settings.FileLayer // what the configuration file said last
	elements json.RawMessage    // see Elements
	window   *time.Timer        // of the revision that waits to be confirmed; nil without one

	// publishing guards the step from one state to the next. It is not held
	// while the disk or the data plane works, so that the end of a connection
	// can be noted meanwhile.
	publishing sync.Mutex
	past       history.Log // written with changing held too
	state      atomic.Pointer[settings.State]
	resolved   atomic.Pointer[resolved] // of state, or not yet
	storing    bool                     // a state is on its way to the disk
	ended      []string                 // connections that ended since storing
	watchers   *watch.Queues[*history.Entry]
}

// New returns a store at revision 0 with the given settings. configured has the keys that the
// configuration file gave.
func New(dp Dataplane, log *slog.Logger, initial *rpcrdma.Settings, configured settings.KeySet) (*Store, error) {
	state, err := settings.NewState(live.Of(initial), configured)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	s := &Store{dp: dp, log: log, seen: state.File(), watchers: watch.NewQueues[*history.Entry](watchQueue)}
	s.state.Store(state)
	return s, nil
}

// Resolve is the data plane's resolver. It does not block.
func (s *Store) Resolve(key dataplane.ConnKey) *rpcrdma.Settings {
	state, r := s.state.Load(), s.resolved.Load()
	if r == nil || r.state != state {
		r = newResolved(state)
		s.resolved.Store(r) // one of an older state, in a race, is replaced at the next look
	}
	return r.resolve(key)
}

// Revision returns the number of changes, those before a restart included.
func (s *Store) Revision() uint32 { return s.state.Load().Revision() }

// target checks that a scope's listener or connection exists, and returns which
// connection it is. A removed listener may still have settings.
func (s *Store) target(scope settings.Scope) (settings.Target, error) {
	switch scope.Kind {
	case settings.Connection:
		info, err := s.dp.Connection(scope.Name)
		if err != nil {
			return settings.Target{}, &settings.NotFoundError{Scope: scope}
		}
		return settings.Target(info.ConnKey), nil
	case settings.Listener:
		if !s.listens(scope.Name) && !s.state.Load().Has(scope) {
			return settings.Target{}, &settings.NotFoundError{Scope: scope}
		}
	}
	return settings.Target{}, nil
}

// listens says whether there is a listener of a name, or a connector: they share
// names and scopes.
func (s *Store) listens(name string) bool {
	return slices.ContainsFunc(s.dp.Listeners(), func(l dataplane.ListenerInfo) bool { return l.Name == name }) ||
		slices.ContainsFunc(s.dp.Connectors(), func(c dataplane.ConnectorInfo) bool { return c.Name == name })
}

// Ended drops the settings of a connection that has ended.
func (s *Store) Ended(id string) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.forget(id)
}

// Reconcile drops the settings of all connections that no longer exist, even if their end was
// not reported.
func (s *Store) Reconcile() {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	for _, id := range s.state.Load().Connections() {
		if _, err := s.dp.Connection(id); err != nil {
			s.forget(id)
		}
	}
}

// forget drops the settings of a connection from this state, and from the one
// on its way to the disk; publishing is held.
func (s *Store) forget(id string) {
	s.state.Store(s.state.Load().Forget(id))
	if s.storing {
		s.ended = append(s.ended, id)
	}
}

// Close stops the timer of a confirm window, ends the watchers and closes the file. A revision
// that waits to be confirmed still waits on disk. Later changes are refused with
// watch.ErrShutdown.
func (s *Store) Close() error {
	s.EndWatchers()
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.stopWindow()
	if s.disk == nil {
		return nil
	}
	return s.disk.Close()
}
