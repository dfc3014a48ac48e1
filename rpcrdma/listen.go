package rpcrdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// ListenConfig configures a listener. The zero value is valid.
type ListenConfig struct {
	// Logger gets messages that concern no single connection. nil means slog.Default.
	Logger *slog.Logger
	// MemoryLimit limits the registered memory of all connections together, in bytes. 0
	// means 1 GiB. The devices that have connections get equal parts of it, but at least
	// MinMemoryLimit each.
	MemoryLimit int64
	// DoneTimeout is how long a peer may take to read a reply and to acknowledge it
	// (extensions.read_replies). After that the memory is reclaimed, within 5 s. 0 means 30
	// s.
	DoneTimeout time.Duration
}

// Listener accepts connections. All of them share its memory.
type Listener struct {
	provider rdmacm.Provider
	cm       *address
	cfg      ListenConfig
	ended    context.Context // ends with unbind
	unbind   func() error    // once

	mu     sync.Mutex
	hosts  map[verbs.Device]*deviceHost
	closed bool
}

// address is a bound address, which a listener may share with its successor.
type address struct {
	rdmacm.Listener
	users atomic.Int32
}

// close releases the address for one user.
func (a *address) close() error {
	if a.users.Add(-1) > 0 {
		return nil
	}
	return a.Close()
}

// Listen binds to host:port on a provider. Port 0 selects a free port. ctx bounds the bind,
// not the listener.
func Listen(ctx context.Context, p rdmacm.Provider, hostPort string, cfg ListenConfig) (*Listener, error) {
	cm, err := p.Listen(ctx, hostPort)
	if err != nil {
		return nil, fmt.Errorf("rpcrdma: listen on %s: %w", hostPort, err)
	}
	return newListener(p, &address{Listener: cm}, cfg), nil
}

func newListener(p rdmacm.Provider, cm *address, cfg ListenConfig) *Listener {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.MemoryLimit = cmp.Or(cfg.MemoryLimit, transport.DefaultMemoryLimit)
	cm.users.Add(1)
	l := &Listener{provider: p, cm: cm, cfg: cfg, hosts: make(map[verbs.Device]*deviceHost)}
	ended, end := context.WithCancel(context.Background())
	l.ended, l.unbind = ended, sync.OnceValue(func() error {
		end()
		return cm.close()
	})
	return l
}

// Successor returns another listener at the address of l, which l must not have given up. Both may
// accept until one of them is closed. The address is free when both are closed.
func (l *Listener) Successor(cfg ListenConfig) *Listener { return newListener(l.provider, l.cm, cfg) }

// Sockets returns the TCP sockets that hold the address, if the provider uses TCP.
func (l *Listener) Sockets() []net.Listener {
	if s, ok := l.cm.Listener.(rdmacm.OnTCP); ok {
		return []net.Listener{s.Socket()}
	}
	return nil
}

// Addr returns the address to which the listener is bound.
func (l *Listener) Addr() netip.AddrPort { return l.cm.Addr() }

// Memory returns the statistics of the registered memory of all connections.
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

// SetMemoryLimit changes MemoryLimit, to at least MinMemoryLimit. Memory in use stays: it
// returns the limit in force, which is higher until the memory is released.
func (l *Listener) SetMemoryLimit(limit int64) (inForce int64) {
	limit = max(limit, MinMemoryLimit)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.MemoryLimit = limit
	return max(limit, l.divideMemory())
}

// Room returns for how many more connections with these settings there is memory for their
// first receives now. Others may be refused with ErrNoMemory. It is the smallest value of
// all devices that have connections.
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
// after Unbind or Close, verbs.ErrClosed.
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	if l.ended.Err() != nil { // the address may have a successor, whose requests these are
		return nil, fmt.Errorf("rpcrdma: accept on %v: %w", l.Addr(), verbs.ErrClosed)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ended, func() { cancel(verbs.ErrClosed) })()
	id, err := l.cm.GetRequest(ctx)
	if err != nil {
		if errors.Is(context.Cause(ctx), verbs.ErrClosed) {
			err = verbs.ErrClosed
		}
		return nil, fmt.Errorf("rpcrdma: accept on %v: %w", l.Addr(), err)
	}
	return &Request{listener: l, id: id}, nil
}

// Health returns an error while no connection requests can arrive, because the listener's
// device, port or address is temporarily gone. changed is closed when the state changes. It
// is nil if the state cannot change with this provider.
func (l *Listener) Health() (changed <-chan struct{}, reason error) {
	if m, ok := l.cm.Listener.(rdmacm.Monitored); ok {
		return m.Health()
	}
	return nil, nil
}

// Unbind gives the address up, as Close does. Requests that Accept has returned can still be
// accepted.
func (l *Listener) Unbind() error { return l.unbind() }

// Close stops listening. Connections that are up continue. The listener's memory is freed
// when the last of them ends.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	unused := l.unused()
	l.mu.Unlock()
	l.free(unused)
	return l.unbind()
}
