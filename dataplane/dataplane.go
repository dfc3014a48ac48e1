package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// DefaultHandshakeTimeout is in force when Config leaves it 0.
const DefaultHandshakeTimeout = 10 * time.Second

var (
	// ErrNotFound says that there is no such connection or listener.
	ErrNotFound = errors.New("not found")
	// ErrExists says that a listener has that name already.
	ErrExists = errors.New("already exists")
	// ErrShutdown says that the data plane is stopping or has stopped.
	ErrShutdown = errors.New("shutting down")
)

// Config is what a Dataplane is made with. Zero values give the defaults.
type Config struct {
	Logger *slog.Logger
	// Resolver gives the settings of connections; the defaults of package
	// rpcrdma when nil. ApplySettings swaps it.
	Resolver Resolver
	// Limits of all listeners together. SetLimits changes them.
	Limits Limits
	// TCP are the limits of services on TCP. SetTCPLimits changes them.
	TCP TCPLimits
	// Memory is the memory limit, in bytes; 0 means DefaultMemory. SetMemory
	// changes it.
	Memory int64
	// Registered is called with each memory limit that comes into force. It returns
	// how much of it listeners and connectors may register together. Nil means all
	// of it.
	Registered func(limit int64) int64
	// Descriptors bound connections, whatever Limits and TCP say. SetDescriptors
	// changes them.
	Descriptors Descriptors
	// HandshakeTimeout is how long a peer has to come up.
	HandshakeTimeout time.Duration
}

// Dataplane owns listeners and connections. All methods may be called from
// any goroutine.
//
// Lock order: applying, then mu or conn.setting, then a turnstile's. Nothing that can wait for
// a peer is called under any of them, and the data path takes none.
type Dataplane struct {
	cfg Config
	log *slog.Logger

	// applying makes settings changes one after another.
	applying sync.Mutex

	mu        sync.Mutex
	started   bool
	stopping  bool
	listeners map[string]*listener
	conns     registry
	limits    Limits // of all listeners together
	tcpLimits TCPLimits
	// descriptors lower limits and tcpLimits.
	descriptors Descriptors
	lastID      uint64 // connection ids given out
	resolve     Resolver
	revision    uint64 // counts resolvers, to see that one was swapped
	subs        map[*Subscription]struct{}

	connectors map[string]*Connector // by name; with mu held
	tcp        *connlimit.Table      // of TCP connections of services

	changesWanted atomic.Int32 // by how many of subs; written with mu held

	// places bounds the connections being made or up, of all listeners and
	// connectors.
	places     *connlimit.Table
	division   division
	tracing    trace.Hub
	handshakes turnstile       // of all listeners
	running    sync.WaitGroup  // connections, being made or up, and what evicts them
	ctx        context.Context // ends with Shutdown
	cancel     context.CancelFunc
}

// New makes a data plane without listeners. Start lets it accept; Shutdown
// ends it.
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
	limits := cfg.Limits.planeDefaults()
	d := &Dataplane{
		cfg:         cfg,
		log:         cfg.Logger,
		listeners:   make(map[string]*listener),
		conns:       newRegistry(),
		limits:      limits,
		tcpLimits:   cfg.TCP,
		descriptors: cfg.Descriptors,
		handshakes:  turnstile{limit: limits.Handshakes},
		resolve:     cfg.Resolver,
		subs:        make(map[*Subscription]struct{}),
	}
	d.connectors = make(map[string]*Connector)
	d.places = connlimit.New(time.Now(), connlimit.Config{Limits: d.tableLimitsLocked()})
	d.tcp = connlimit.New(time.Now(), connlimit.Config{Limits: d.tcpTableLocked()})
	d.division.init(cfg.Memory, cfg.Registered)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// newPlaces makes the table of a listener's or a connector's connections.
func (d *Dataplane) newPlaces(name string) *connlimit.Table {
	return connlimit.New(time.Now(), connlimit.Config{Name: name, Parent: d.places})
}

func defaultResolver(ConnKey) *rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	return &s
}

// Start accepts connections on all listeners, those added later included.
// Before it, listeners are bound but nobody is let in, so that a daemon can
// bind everything, or fail, before it serves anything.
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

// Shutdown stops accepting, lets every connection finish the calls in flight
// and disconnects it, all at once. When ctx ends first, what is left is
// closed at once, and the error says how many connections that were. It
// returns when nothing of the data plane runs any more.
func (d *Dataplane) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	d.stopping = true
	listeners := make([]*listener, 0, len(d.listeners))
	for _, l := range d.listeners {
		listeners = append(listeners, l)
	}
	d.mu.Unlock()
	for _, l := range listeners {
		l.stop() // after it, every connection is in the registry
	}
	d.cancel()
	_, cut := d.drainAll(ctx, reasonShutdown, func(*conn) bool { return true })
	d.running.Wait()
	d.division.end()
	d.endSubscriptions()
	if cut > 0 {
		return &CutError{Count: cut, Err: context.Cause(ctx)}
	}
	return nil
}
