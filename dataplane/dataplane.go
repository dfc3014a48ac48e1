package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Limits in force when Config leaves them 0.
const (
	DefaultMaxConnections   = 4096
	DefaultMaxHandshakes    = 64
	DefaultHandshakeTimeout = 10 * time.Second
)

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
	// MaxConnections bounds the connections of all listeners, being made or
	// up. Peers over it are rejected.
	MaxConnections int
	// MaxHandshakes bounds the connections of one listener being made at
	// once. Peers over it wait in the provider's bounded queue.
	MaxHandshakes int
	// HandshakeTimeout is how long a peer has to come up.
	HandshakeTimeout time.Duration
}

// Dataplane owns listeners and connections. All methods may be called from
// any goroutine.
//
// Lock order: applying, then conn.setting, then mu. Nothing that can wait for
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
	conns     map[string]*conn
	making    int    // connections being made
	lastID    uint64 // connection ids given out
	resolve   Resolver
	revision  uint64 // counts resolvers, to see that one was swapped
	subs      map[*Subscription]struct{}

	running sync.WaitGroup // connections, being made or up
}

// New makes a data plane without listeners. Start lets it accept; Shutdown
// ends it.
func New(cfg Config) *Dataplane {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = DefaultMaxConnections
	}
	if cfg.MaxHandshakes == 0 {
		cfg.MaxHandshakes = DefaultMaxHandshakes
	}
	if cfg.HandshakeTimeout == 0 {
		cfg.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if cfg.Resolver == nil {
		cfg.Resolver = defaultResolver
	}
	return &Dataplane{
		cfg:       cfg,
		log:       cfg.Logger,
		listeners: make(map[string]*listener),
		conns:     make(map[string]*conn),
		resolve:   cfg.Resolver,
		subs:      make(map[*Subscription]struct{}),
	}
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
	cut := d.drainAll(ctx, func(*conn) bool { return true })
	d.running.Wait()
	d.endSubscriptions()
	if cut > 0 {
		return fmt.Errorf("%d connections cut with calls in flight: %w", cut, context.Cause(ctx))
	}
	return nil
}

// drainAll drains the connections that want names, all at once, and closes
// those not done when ctx ends. It returns how many those were.
func (d *Dataplane) drainAll(ctx context.Context, want func(*conn) bool) (cut int) {
	var all []*conn
	d.mu.Lock()
	for _, c := range d.conns {
		if want(c) {
			all = append(all, c)
		}
	}
	d.mu.Unlock()
	failed := make(chan bool, len(all))
	for _, c := range all {
		go func() { failed <- c.drain(ctx) != nil }()
	}
	for range all {
		if <-failed {
			cut++
		}
	}
	return cut
}
