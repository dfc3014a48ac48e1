package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// SetConfig is what a Set is made with.
type SetConfig struct {
	Dataplane *dataplane.Dataplane
	// Provider gives the provider of a name in Providers, made at first use.
	Provider  func(name string) (rdmacm.Provider, error)
	Providers []string
	Bindings  *ulb.Registry
	Logger    *slog.Logger
}

// Set is the connectors of a configuration, which may change, and those that
// operators added. Its methods may be called from any goroutine.
type Set struct {
	cfg SetConfig

	op    sync.Mutex // one change after another
	store manager.ConnectorStore

	mu       sync.Mutex
	started  bool
	closed   bool
	all      map[string]*member
	shadowed []Spec // added, in whose names the file has others
}

var _ manager.ConnectorAPI = (*Set)(nil)

// member is a connector with what it was made of. Only what is up, or going,
// has a Connector.
type member struct {
	*Connector
	spec    Spec
	origin  manager.Origin
	going   bool   // under Set.mu
	failure string // why it could not be brought back
}

// NewSet makes a set of no connectors.
func NewSet(cfg SetConfig) *Set { return &Set{cfg: cfg, all: make(map[string]*member)} }

// Configure binds the configuration's connectors. On an error the caller Shuts
// down. That of an address is a *manager.AddressError.
func (s *Set) Configure(ctx context.Context, specs []Spec) error {
	s.op.Lock()
	defer s.op.Unlock()
	for i := range specs {
		if err := s.add(ctx, &specs[i], manager.FromFile); err != nil {
			return err
		}
	}
	return nil
}

// add binds a connector, which accepts at once if the set was started. op is
// held.
func (s *Set) add(ctx context.Context, spec *Spec, origin manager.Origin) error {
	m, err := s.bind(ctx, spec, origin)
	if err != nil {
		return err
	}
	return s.enter(m)
}

// bind makes a connector that nobody knows yet. The errors are those of
// manager.API.
func (s *Set) bind(ctx context.Context, spec *Spec, origin manager.Origin) (*member, error) {
	p, err := s.cfg.Provider(spec.Provider)
	if err != nil {
		return nil, err
	}
	c, err := New(ctx, Config{
		Name: spec.Name, Listen: spec.Listen, Provider: p, Target: spec.Target,
		Dataplane: s.cfg.Dataplane, Bindings: s.cfg.Bindings, Logger: s.cfg.Logger,
		Limits: spec.Limits.Limits, Access: spec.Access,
		DialTimeout: spec.DialTimeout, CallbackTimeout: spec.CallbackTimeout,
		MaxCalls: spec.MaxCalls, MaxReply: int(spec.MaxReply), Memory: int64(spec.Limits.Memory),
	})
	if err != nil {
		return nil, bindError(spec, err)
	}
	return &member{Connector: c, spec: *spec, origin: origin}, nil
}

// bindError says why a connector could not be made.
func bindError(spec *Spec, err error) error {
	if bind, ok := errors.AsType[*BindError](err); ok {
		return manager.NewAddressError("connector "+spec.Name, spec.Listen, bind.Err)
	}
	if errors.Is(err, dataplane.ErrExists) { // of the set's own it is none
		return &manager.ExistsError{What: "listener", Name: spec.Name}
	}
	if bad := manager.NewInvalidError(err); bad != nil {
		return bad
	}
	return err
}

// enter puts a connector into the set. op is held.
func (s *Set) enter(m *member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		m.Close()
		return fmt.Errorf("connector %s: %w", m.spec.Name, dataplane.ErrShutdown)
	}
	s.all[m.spec.Name] = m
	if s.started {
		s.run(m)
	}
	return nil
}

// Start has all connectors accept, those added later included.
func (s *Set) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		if m := s.all[name]; m.Connector != nil {
			s.run(m)
		}
	}
}

func (s *Set) run(m *member) {
	c := m.Connector
	c.Start()
	c.log.Info("listening", "what", "connector", "address", c.Addr().String(), "provider", c.cfg.Provider.Name(), "target", c.cfg.Target)
}

// pinPort has a connector that let the system choose come back on the port that
// its clients know.
func (m *member) pinPort() {
	if host, port, err := net.SplitHostPort(m.spec.Listen); err == nil && port == "0" {
		m.spec.Listen = net.JoinHostPort(host, strconv.Itoa(int(m.Addr().Port())))
	}
}

func same(a, b Spec) bool { return reflect.DeepEqual(a, b) }

func (s *Set) find(name string) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

// Shutdown ends all connectors, at once: calls in flight finish until ctx
// ends, then the error says how many clients were cut. It may be called more
// than once.
func (s *Set) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := slices.DeleteFunc(slices.Collect(maps.Values(s.all)), func(m *member) bool { return m.Connector == nil })
	s.mu.Unlock()
	cut := make(chan int, len(all))
	for _, m := range all {
		go func() { cut <- m.Shutdown(ctx).Cut }()
	}
	n := 0
	for range all {
		n += <-cut
	}
	if n > 0 {
		return &dataplane.CutError{Count: n, Err: context.Cause(ctx)}
	}
	return nil
}
