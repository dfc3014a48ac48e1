// Package desired keeps the settings that operators want, changes them one
// after another and has the data plane carry them out.
//
// Readers, the data plane's resolver above all, take a snapshot without a
// lock. A change is checked against the model and against what exists, then
// published as a whole, then applied by the data plane, which says what that
// did to each connection.
package desired

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Dataplane is what carries settings out.
type Dataplane interface {
	Connection(id string) (dataplane.ConnInfo, error)
	Listeners() []dataplane.ListenerInfo
	ApplySettings(dataplane.Resolver, dataplane.ChangedFunc) []dataplane.Effect
	PreviewSettings(dataplane.Resolver, dataplane.ChangedFunc) []dataplane.Effect
}

// Store holds the desired settings. All methods may be called from any
// goroutine. Lock order: changing, publishing, then the data plane's.
type Store struct {
	dp  Dataplane
	log *slog.Logger

	// changing makes changes one after another, from check to effects, so
	// that the effects are those of one revision.
	changing sync.Mutex
	// publishing guards the step from one state to the next. It is not held
	// while the data plane works, so that the end of a connection can be
	// noted meanwhile.
	publishing sync.Mutex
	state      atomic.Pointer[settings.State]
}

// New is a store at revision 0 with the given settings; configured names the
// keys that the configuration file gave, by dotted name.
func New(dp Dataplane, log *slog.Logger, initial *rpcrdma.Settings, configured []string) (*Store, error) {
	var set settings.KeySet
	for _, name := range configured {
		k, ok := settings.ParseKey(name)
		if !ok {
			return nil, fmt.Errorf("settings: there is no %s", name)
		}
		set = set.With(k)
	}
	state, err := settings.NewState(settings.FromSettings(initial), set)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	s := &Store{dp: dp, log: log}
	s.state.Store(state)
	return s, nil
}

// Resolve is the data plane's resolver. It doesn't block.
func (s *Store) Resolve(key dataplane.ConnKey) *rpcrdma.Settings {
	return resolver(s.state.Load())(key)
}

func resolver(state *settings.State) dataplane.Resolver {
	return func(key dataplane.ConnKey) *rpcrdma.Settings {
		v := state.Resolve(settings.Target(key))
		return v.Settings()
	}
}

// Revision counts the changes made.
func (s *Store) Revision() uint32 { return s.state.Load().Revision() }

// View is what is in force at a scope.
type View struct {
	Revision uint32
	settings.Effective
}

// Get looks from a scope. *settings.NotFoundError when its listener or
// connection doesn't exist.
func (s *Store) Get(scope settings.Scope) (View, error) {
	target, err := s.target(scope)
	if err != nil {
		return View{}, err
	}
	state := s.state.Load()
	if scope.Kind == settings.Connection {
		return View{state.Revision(), state.Effective(target)}, nil
	}
	return View{state.Revision(), state.At(scope)}, nil
}

// target checks that a scope's listener or connection exists, and tells which
// connection it is.
func (s *Store) target(scope settings.Scope) (settings.Target, error) {
	switch scope.Kind {
	case settings.Connection:
		info, err := s.dp.Connection(scope.Name)
		if err != nil {
			return settings.Target{}, &settings.NotFoundError{Scope: scope}
		}
		return settings.Target(info.ConnKey), nil
	case settings.Listener:
		named := func(l dataplane.ListenerInfo) bool { return l.Name == scope.Name }
		if !slices.ContainsFunc(s.dp.Listeners(), named) {
			return settings.Target{}, &settings.NotFoundError{Scope: scope}
		}
	}
	return settings.Target{}, nil
}

// Result is what a change did, or would do.
type Result struct {
	Revision uint32
	Effects  []dataplane.Effect
}

// Set makes a change, or with dryRun says what it would do. The scope's
// target is looked up here. Errors are those of the model and
// *settings.NotFoundError.
func (s *Store) Set(c settings.Change, dryRun bool) (Result, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	next, err := s.advance(&c, dryRun)
	if err != nil {
		return Result{}, err
	}
	touch := newTouched(next, &c)
	if dryRun {
		effects := s.dp.PreviewSettings(resolver(next), touch.changed)
		return Result{s.Revision(), touch.finish(effects)}, nil
	}
	s.log.Info("settings changed", "revision", next.Revision(), "scope", c.Scope.String(),
		"set", describe(&c.Set), "unset", c.Unset.String())
	effects := s.dp.ApplySettings(s.Resolve, touch.changed)
	return Result{next.Revision(), touch.finish(effects)}, nil
}

// advance checks a change and makes its state the current one, unless it is
// a dry run. What has to be on disk before a change counts is written here.
func (s *Store) advance(c *settings.Change, dryRun bool) (*settings.State, error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	// The end of a connection is told after it is gone from the data plane:
	// what is found here will be forgotten in time.
	target, err := s.target(c.Scope)
	if err != nil {
		return nil, err
	}
	c.Target = target
	next, err := s.state.Load().Apply(c)
	if err != nil {
		return nil, err
	}
	if !dryRun {
		s.state.Store(next)
	}
	return next, nil
}

func describe(v *settings.Values) string {
	keys := v.Keys().Keys()
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = k.String() + "=" + v.Format(k)
	}
	return strings.Join(parts, " ")
}

// Ended drops the settings of a connection that has ended.
func (s *Store) Ended(id string) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.state.Store(s.state.Load().Forget(id))
}

// Reconcile drops the settings of all connections that are gone. It makes
// good for ends that nobody was told of.
func (s *Store) Reconcile() {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	state := s.state.Load()
	for _, id := range state.Connections() {
		if _, err := s.dp.Connection(id); err != nil {
			state = state.Forget(id)
		}
	}
	s.state.Store(state)
}
