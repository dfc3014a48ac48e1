package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Spec is a connector as the configuration wants it; 0 is the default.
type Spec struct {
	Name, Listen, Provider, Target string
	DialTimeout, CallbackTimeout   time.Duration
	MaxCalls, MaxReply             int
	Memory                         int64 // of the calls of all clients, in bytes
	Limits                         dataplane.Limits
	Access                         dataplane.Access
}

// SetConfig is what a Set is made with.
type SetConfig struct {
	Dataplane *dataplane.Dataplane
	// Provider gives the provider of a name, made at first use.
	Provider func(name string) (rdmacm.Provider, error)
	Bindings *ulb.Registry
	Logger   *slog.Logger
}

// Set is the connectors of a configuration, which may change. Its methods may
// be called from any goroutine.
type Set struct {
	cfg SetConfig

	op sync.Mutex // one change after another

	mu      sync.Mutex
	started bool
	closed  bool
	all     map[string]*member
}

// member is a connector with what it was made of.
type member struct {
	*Connector
	spec Spec
}

// NewSet makes a set of no connectors.
func NewSet(cfg SetConfig) *Set { return &Set{cfg: cfg, all: make(map[string]*member)} }

// Configure binds connectors. On an error the caller Shuts down. That of an
// address is a *manager.AddressError.
func (s *Set) Configure(ctx context.Context, specs []Spec) error {
	s.op.Lock()
	defer s.op.Unlock()
	for i := range specs {
		if err := s.add(ctx, &specs[i]); err != nil {
			return err
		}
	}
	return nil
}

// add binds a connector, which accepts at once if the set was started. op is
// held.
func (s *Set) add(ctx context.Context, spec *Spec) error {
	p, err := s.cfg.Provider(spec.Provider)
	if err != nil {
		return err
	}
	c, err := New(ctx, Config{
		Name: spec.Name, Listen: spec.Listen, Provider: p, Target: spec.Target,
		Dataplane: s.cfg.Dataplane, Bindings: s.cfg.Bindings, Logger: s.cfg.Logger,
		Limits: spec.Limits, Access: spec.Access,
		DialTimeout: spec.DialTimeout, CallbackTimeout: spec.CallbackTimeout,
		MaxCalls: spec.MaxCalls, MaxReply: spec.MaxReply, Memory: spec.Memory,
	})
	if bind, ok := errors.AsType[*BindError](err); ok {
		return manager.NewAddressError("connector "+spec.Name, spec.Listen, bind.Err)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return fmt.Errorf("connector %s: %w", spec.Name, dataplane.ErrShutdown)
	}
	s.all[spec.Name] = &member{c, *spec}
	if s.started {
		s.run(c)
	}
	return nil
}

// Start has all connectors accept, those added later included.
func (s *Set) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		s.run(s.all[name].Connector)
	}
}

func (s *Set) run(c *Connector) {
	c.Start()
	c.log.Info("listening", "what", "connector", "address", c.Addr().String(), "provider", c.cfg.Provider.Name(), "target", c.cfg.Target)
}

// Reload makes the connectors those of a new version of the configuration,
// which was checked. Those that are the same in both go on untouched, of those
// whose limits or access alone are others the clients, too. The others are
// drained, at most for as long as drain says. It does all that can be done; the
// error names what could not.
func (s *Set) Reload(ctx context.Context, specs []Spec, drain time.Duration) error {
	s.op.Lock()
	defer s.op.Unlock()
	var errs []error
	s.remove(s.gone(specs), drain)
	for i := range specs {
		spec := &specs[i]
		if m := s.find(spec.Name); m == nil {
			errs = append(errs, s.add(ctx, spec))
		} else if !reflect.DeepEqual(m.spec, *spec) {
			errs = append(errs, m.place.Update(spec.Limits, spec.Access))
			m.spec = *spec
		}
	}
	return errors.Join(errs...)
}

// gone are the connectors that can't be as specs want them without being bound
// again.
func (s *Set) gone(specs []Spec) (out []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.all {
		i := slices.IndexFunc(specs, func(o Spec) bool { return o.Name == name })
		if i < 0 || !m.spec.sameBinding(specs[i]) {
			out = append(out, m)
		}
	}
	return out
}

// sameBinding says whether a connector can become another with clients.
func (a Spec) sameBinding(b Spec) bool {
	a.Limits, a.Access = b.Limits, b.Access
	return reflect.DeepEqual(a, b)
}

func (s *Set) find(name string) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

// remove drains several at once. op is held.
func (s *Set) remove(list []*member, drain time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range list {
		wg.Go(func() {
			r := m.Shutdown(ctx)
			m.log.Info("connector removed", "drained", r.Drained, "cut", r.Cut)
		})
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range list {
		delete(s.all, m.spec.Name)
	}
}

// Shutdown ends all connectors, at once: calls in flight finish until ctx
// ends, then the error says how many clients were cut. It may be called more
// than once.
func (s *Set) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.all))
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
