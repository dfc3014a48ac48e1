package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// DefaultHandshakeTimeout applies when Config.HandshakeTimeout is 0.
const DefaultHandshakeTimeout = 10 * time.Second

var (
	// ErrNotFound means that there is no such connection, listener or connector.
	ErrNotFound = errors.New("not found")
	// ErrExists means that a listener or connector already has that name.
	ErrExists = errors.New("already exists")
	// ErrShutdown means that the data plane is stopping or has stopped.
	ErrShutdown = errors.New("shutting down")
)

// Config configures a Dataplane. Zero values mean the defaults.
type Config struct {
	Logger *slog.Logger
	// Resolver returns the settings of connections; nil means the defaults of package
	// rpcrdma. ApplySettings replaces it.
	Resolver Resolver
	// Limits apply to all listeners together. SetLimits changes them.
	Limits Limits
	// TCP has the limits of services on TCP. SetTCPLimits changes them.
	TCP TCPLimits
	// Memory is the memory limit, in bytes; 0 means DefaultMemory. SetMemory
	// changes it.
	Memory int64
	// Registered is called with each new memory limit. It returns how many bytes of it
	// listeners and connectors may register together. Nil means all of it.
	Registered func(limit int64) int64
	// Descriptors limits connections in addition to Limits and TCP. SetDescriptors changes
	// it.
	Descriptors Descriptors
	// SlowCall is the shortest time of a slow call. 0 means that no calls are measured.
	// SetSlowCall changes it.
	SlowCall time.Duration
	// HandshakeTimeout is how long a peer may take to come up.
	HandshakeTimeout time.Duration
}

// Dataplane owns listeners and connections. Its methods are safe for concurrent use.
//
// Lock order: applying or counting, then mu or conn.setting, then a budget's or that of clients.
// Nothing that can wait for a peer is called while one of them is held. The data path takes none
// of them.
type Dataplane struct {
	cfg Config
	log *slog.Logger

	// applying serializes changes of settings.
	applying sync.Mutex
	// counting is held while a connection is counted.
	counting sync.Mutex

	mu        sync.Mutex
	started   bool
	stopping  bool
	listeners map[string]*Listener
	prepared  map[*Listener]struct{} // bound, with their memory; not listed yet
	leaving   map[*Listener]struct{} // others have their names; not removed yet
	conns     registry
	totals    rpcrdma.Stats // of all endpoints, also of those that were removed
	limits    Limits        // of all listeners together
	tcpLimits TCPLimits
	// descriptors may lower limits and tcpLimits.
	descriptors Descriptors
	lastID      uint64 // the last connection id
	resolve     Resolver
	revision    uint64 // number of resolvers so far

	connectors map[string]*Connector // by name; under mu
	tcp        *connlimit.Table      // TCP connections of services

	subs Subscriptions

	// places bounds the connections of all listeners and connectors, being made or up.
	places     *connlimit.Table
	clients    *clients.Table
	division   division
	tracing    trace.Hub
	slow       slowCalls
	handshakes *budget.Budget  // of all listeners
	running    sync.WaitGroup  // connections, being made or up, and evictions
	ctx        context.Context // ends with Shutdown
	cancel     context.CancelFunc
}

// New makes a data plane without listeners. Start begins to accept. Shutdown ends it.
func New(cfg Config) *Dataplane {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.HandshakeTimeout == 0 {
		cfg.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if cfg.Resolver == nil {
		cfg.Resolver = defaultResolver
	}
	limits := cfg.Limits.withDefaults(planeDefaults)
	d := &Dataplane{
		cfg:         cfg,
		log:         cfg.Logger,
		listeners:   make(map[string]*Listener),
		prepared:    make(map[*Listener]struct{}),
		leaving:     make(map[*Listener]struct{}),
		conns:       newRegistry(),
		limits:      limits,
		tcpLimits:   cfg.TCP,
		descriptors: cfg.Descriptors,
		handshakes:  budget.New(int64(limits.Handshakes)),
		resolve:     cfg.Resolver,
	}
	d.SetSlowCall(cfg.SlowCall)
	d.connectors = make(map[string]*Connector)
	d.clients = clients.New(clients.Room)
	d.clients.Recount = d.recount
	d.places = connlimit.New(time.Now(), connlimit.Config{Limits: d.tableLimitsLocked()})
	d.tcp = connlimit.New(time.Now(), connlimit.Config{Limits: d.tcpTableLocked()})
	d.division.init(cfg.Memory, cfg.Registered)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Clients returns the table of the clients of listeners and connectors. Services on TCP add
// theirs.
func (d *Dataplane) Clients() *clients.Table { return d.clients }

func defaultResolver(ConnKey) *rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	return &s
}

// Start accepts connections on all listeners, including those added later. Before Start,
// listeners are bound but accept no connection, so that a daemon can bind everything, or
// fail, before it serves anything.
func (d *Dataplane) Start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started || d.stopping {
		return
	}
	d.started = true
	d.running.Go(func() { d.places.Run(d.ctx) })
	d.running.Go(func() { d.tcp.Run(d.ctx) })
	d.division.start(d)
	for _, l := range d.listeners {
		d.runLocked(l)
	}
}

// boundLocked returns all listeners, with those that others have replaced.
func (d *Dataplane) boundLocked() []*Listener {
	return slices.AppendSeq(slices.Collect(maps.Values(d.listeners)), maps.Keys(d.leaving))
}

// Stopping ends the admission of connections, as Shutdown does first. Connections that connectors end
// from then on have the reason that rdmad is stopping.
func (d *Dataplane) Stopping() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
}

// Shutdown stops accepting, lets all connections finish their calls in flight and
// disconnects them. When ctx ends first, it closes the remaining connections, and the error
// has their number. When it returns, nothing of the data plane runs any more.
func (d *Dataplane) Shutdown(ctx context.Context) error {
	d.Stopping()
	d.mu.Lock()
	listeners := d.boundLocked()
	d.mu.Unlock()
	for _, l := range listeners {
		l.stop() // after it, every connection is in the registry
	}
	d.cancel()
	_, cut := d.drainAll(ctx, reasonShutdown, func(*conn) bool { return true }, nil)
	d.running.Wait()
	d.division.end()
	d.subs.End(ErrShutdown)
	if cut > 0 {
		return &CutError{Count: cut, Err: context.Cause(ctx)}
	}
	return nil
}
