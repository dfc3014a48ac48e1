package rpcrdma

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// ListenConfig is what a listener is made with; the zero value is good.
type ListenConfig struct {
	// Logger takes what concerns no single connection; nil is slog.Default.
	Logger *slog.Logger
	// MemoryLimit bounds the registered memory of all connections together,
	// in bytes; 0 is 1 GiB.
	MemoryLimit int64
	// DoneTimeout is how long a peer may take to read a reply and to
	// acknowledge it (extensions.read_replies); then the memory is reclaimed,
	// within 5 s. 0 is 30 s.
	DoneTimeout time.Duration
}

// Listener accepts connections. All of them share its memory.
type Listener struct {
	provider rdmacm.Provider
	cm       rdmacm.Listener
	cfg      ListenConfig

	mu     sync.Mutex
	hosts  map[verbs.Device]*deviceHost
	closed bool
}

// Listen binds to host:port on a provider; port 0 picks one.
func Listen(ctx context.Context, p rdmacm.Provider, address string, cfg ListenConfig) (*Listener, error) {
	cm, err := p.Listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("rpcrdma: listen on %s: %w", address, err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Listener{provider: p, cm: cm, cfg: cfg, hosts: make(map[verbs.Device]*deviceHost)}, nil
}

// Addr is the address that the listener is bound to.
func (l *Listener) Addr() netip.AddrPort { return l.cm.Addr() }

// Memory are the numbers of the registered memory of all connections
// together.
func (l *Listener) Memory() MemoryStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum MemoryStats
	for _, h := range l.hosts {
		m := h.Memory()
		sum.Limit += m.Limit
		sum.Registered += m.Registered
		sum.Taken += m.Taken
	}
	return sum
}

// SetMemoryLimit changes MemoryLimit, to at least MinMemoryLimit. What is in
// use stays: it returns the limit in force, which is higher meanwhile.
func (l *Listener) SetMemoryLimit(limit int64) (inForce int64) {
	limit = max(limit, MinMemoryLimit)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.MemoryLimit = limit
	for _, h := range l.hosts {
		inForce += h.SetMemoryLimit(limit / int64(len(l.hosts)))
	}
	return max(limit, inForce)
}

// Room is for how many more connections with the same settings there is memory for
// their first receives now. Others may be refused with ErrNoMemory. It is the
// least of the devices that have connections.
func (l *Listener) Room(s *Settings) int {
	room := math.MaxInt32
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts {
		room = min(room, h.Room(s))
	}
	return room
}

// Accept waits for the next connection request. It fails with ctx.Err() or,
// after Close, verbs.ErrClosed.
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	id, err := l.cm.GetRequest(ctx)
	if err != nil {
		return nil, fmt.Errorf("rpcrdma: accept on %v: %w", l.Addr(), err)
	}
	return &Request{listener: l, id: id}, nil
}

// Health fails while no connection requests can arrive, because the listener's
// device, port or address is gone for the time being. changed is closed when that
// is otherwise; it is nil with providers where it can't be.
func (l *Listener) Health() (changed <-chan struct{}, reason error) {
	if m, ok := l.cm.(rdmacm.Monitored); ok {
		return m.Health()
	}
	return nil, nil
}

// Close stops listening. Connections that are up live on; the listener's
// memory is freed when the last of them ends.
func (l *Listener) Close() error {
	err := l.cm.Close()
	l.mu.Lock()
	l.closed = true
	unused := l.unused()
	l.mu.Unlock()
	l.free(unused)
	return err
}
