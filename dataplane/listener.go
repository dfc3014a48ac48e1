package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// ListenerConfig describes a listener to be added.
type ListenerConfig struct {
	// Name is unique among the listeners; settings refer to it.
	Name     string
	Provider rdmacm.Provider
	// Address is host:port; port 0 picks one.
	Address string
	// Service names the handler, for operators.
	Service string
	// Handler may be a perconn.Opener.
	Handler oncrpc.Handler
	Limits  Limits
	Access  Access
}

// listener accepts connections for one service.
type listener struct {
	d       *Dataplane
	cfg     ListenerConfig
	rl      *rpcrdma.Listener
	since   time.Time
	handler *measured

	ctx        context.Context // ends when it stops accepting
	cancel     context.CancelFunc
	handshakes turnstile
	accepting  sync.WaitGroup // the accept loop and what it started, up to the registry
	running    sync.WaitGroup // connections, being made or up

	access   atomic.Pointer[Access] // changed under Dataplane.mu
	accepted atomic.Uint64
	// disconnects are connections that peers ended with calls being served.
	disconnects atomic.Uint64
	refused     *refusalLog
	places      *connlimit.Table // of connections being made or up
	evicted     evictions
	receivers   receivers
	sharing     listenerSharing
	listenerGauges

	// Under Dataplane.mu:
	divided  bool // has its part of the memory
	draining bool // being removed
	limits   Limits
	up       int           // connections
	gone     rpcrdma.Stats // sums of connections that ended
}

// AddListener binds a listener, and accepts at once if the data plane was
// started. ErrExists, ErrShutdown, a *LimitError and an *AccessError can be
// told apart; anything else is the provider's, with the address.
func (d *Dataplane) AddListener(ctx context.Context, cfg ListenerConfig) (ListenerInfo, error) {
	l, err := d.newListener(ctx, cfg)
	if err != nil {
		return ListenerInfo{}, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	d.mu.Lock()
	if err := d.freeLocked(cfg.Name); err != nil {
		d.mu.Unlock()
		l.cancel()
		l.rl.Close()
		return ListenerInfo{}, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	d.listeners[cfg.Name] = l
	d.mu.Unlock()
	d.division.step(d, true) // its peers may all come at once
	d.mu.Lock()
	defer d.mu.Unlock()
	l.divided = true
	d.runLocked(l)
	return l.infoLocked(), nil
}

// newListener checks a configuration and binds it.
func (d *Dataplane) newListener(ctx context.Context, cfg ListenerConfig) (*listener, error) {
	if err := cfg.Limits.Check(); err != nil {
		return nil, fmt.Errorf("limits.%w", err)
	}
	access, err := cfg.Access.normal()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	err = d.freeLocked(cfg.Name)
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	rl, err := rpcrdma.Listen(ctx, cfg.Provider, cfg.Address, rpcrdma.ListenConfig{
		Logger:      d.log.With("listener", cfg.Name),
		MemoryLimit: rpcrdma.MinMemoryLimit, // the division gives it more
	})
	if err != nil {
		return nil, err
	}
	l := &listener{
		d:       d,
		cfg:     cfg,
		rl:      rl,
		since:   time.Now(),
		handler: new(measured),
		refused: new(refusalLog),
		places:  d.newPlaces("listener " + cfg.Name),
		sharing: listenerSharing{memory: rpcrdma.MinMemoryLimit},
	}
	l.access.Store(access)
	l.setLimitsLocked(cfg.Limits) // nobody else knows it yet
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// freeLocked says whether a listener may be added under a name.
func (d *Dataplane) freeLocked(name string) error {
	switch {
	case d.stopping:
		return ErrShutdown
	case d.listeners[name] != nil || d.connectors[name] != nil:
		return ErrExists
	}
	return nil
}

// runLocked starts l's accept loop once the data plane was started and l has
// its part of the memory; Dataplane.mu is held.
func (d *Dataplane) runLocked(l *listener) {
	if d.started && !d.stopping && l.divided && !l.draining {
		l.accepting.Go(l.accept)
		l.accepting.Go(l.followHealth)
		l.accepting.Go(func() { l.places.Run(l.ctx) })
	}
}

// Removed says how the connections of a listener ended.
type Removed struct {
	Drained int // all calls finished
	Cut     int // the time was over before that
}

// RemoveListener stops accepting on a listener and drains its connections;
// those not done when ctx ends are closed. Meanwhile the listener is there,
// draining; called again, the context that ends first holds. When it returns,
// nothing of the listener is left. Other listeners notice nothing. The error
// is ErrNotFound.
func (d *Dataplane) RemoveListener(ctx context.Context, name string) (Removed, error) {
	d.mu.Lock()
	l := d.listeners[name]
	if l != nil {
		l.draining = true
	}
	d.mu.Unlock()
	if l == nil {
		return Removed{}, fmt.Errorf("listener %s: %w", name, ErrNotFound)
	}
	l.stop()
	all, cut := d.drainAll(ctx, reasonListener, func(c *conn) bool { return c.l == l })
	l.running.Wait()
	d.mu.Lock()
	if d.listeners[name] == l {
		delete(d.listeners, name)
	}
	d.mu.Unlock()
	return Removed{Drained: all - cut, Cut: cut}, nil
}

// Listeners describes all listeners, by name.
func (d *Dataplane) Listeners() []ListenerInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]ListenerInfo, 0, len(d.listeners))
	for _, l := range d.listeners {
		out = append(out, l.infoLocked())
	}
	slices.SortFunc(out, func(a, b ListenerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (l *listener) infoLocked() ListenerInfo {
	state, trouble := l.stateLocked()
	refused := l.refused.snapshot()
	return ListenerInfo{
		Name:        l.cfg.Name,
		Provider:    l.cfg.Provider.Name(),
		Service:     l.cfg.Service,
		Address:     l.rl.Addr(),
		State:       state,
		Trouble:     trouble,
		Connections: l.up,
		Accepted:    l.accepted.Load(),
		Refused:     refused.Sum(),
		Refusals:    refused,
		Evictions:   l.evicted.snapshot(),
		Since:       l.since,
		Limits:      l.limits,
		Access:      *l.access.Load(),
	}
}

// stop ends the accept loop; connections being made are given up, those that
// are up live on. The caller has made sure that it isn't started again.
func (l *listener) stop() {
	l.cancel()
	l.rl.Close()
	l.accepting.Wait()
}
