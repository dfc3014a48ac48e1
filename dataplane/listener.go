package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs"
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
	Handler oncrpc.Handler
	// MemoryLimit bounds the registered memory pooled for the listener's
	// connections, in bytes; 0 is rpcrdma's default.
	MemoryLimit int64
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
	handshakes chan struct{}  // slots of connections being made
	accepting  sync.WaitGroup // the accept loop and what it started, up to the registry

	accepted, refused atomic.Uint64
	up                int           // connections, under Dataplane.mu
	gone              rpcrdma.Stats // sums of connections that ended, under Dataplane.mu
}

// AddListener binds a listener, and accepts at once if the data plane was
// started. ErrExists and ErrShutdown can be told apart; anything else is the
// provider's, with the address.
func (d *Dataplane) AddListener(ctx context.Context, cfg ListenerConfig) (ListenerInfo, error) {
	rl, err := rpcrdma.Listen(ctx, cfg.Provider, cfg.Address, rpcrdma.ListenConfig{
		Logger:      d.log.With("listener", cfg.Name),
		MemoryLimit: cfg.MemoryLimit,
	})
	if err != nil {
		return ListenerInfo{}, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	l := &listener{
		d:          d,
		cfg:        cfg,
		rl:         rl,
		since:      time.Now(),
		handler:    &measured{next: cfg.Handler},
		handshakes: make(chan struct{}, d.cfg.MaxHandshakes),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopping:
		err = ErrShutdown
	case d.listeners[cfg.Name] != nil:
		err = ErrExists
	}
	if err != nil {
		l.cancel()
		rl.Close()
		return ListenerInfo{}, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	d.listeners[cfg.Name] = l
	if d.started {
		d.runLocked(l)
	}
	return l.infoLocked(), nil
}

// runLocked starts l's accept loop; Dataplane.mu is held.
func (d *Dataplane) runLocked(l *listener) {
	l.accepting.Go(l.accept)
}

// RemoveListener stops accepting on a listener and drains its connections;
// those not done when ctx ends are closed. Other listeners notice nothing.
func (d *Dataplane) RemoveListener(ctx context.Context, name string) error {
	d.mu.Lock()
	l := d.listeners[name]
	delete(d.listeners, name)
	d.mu.Unlock()
	if l == nil {
		return fmt.Errorf("listener %s: %w", name, ErrNotFound)
	}
	l.stop()
	cut := d.drainAll(ctx, func(c *conn) bool { return c.l == l })
	if cut > 0 {
		return fmt.Errorf("listener %s: %d connections cut with calls in flight: %w", name, cut, context.Cause(ctx))
	}
	return nil
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
	return ListenerInfo{
		Name:        l.cfg.Name,
		Provider:    l.cfg.Provider.Name(),
		Service:     l.cfg.Service,
		Address:     l.rl.Addr(),
		Connections: l.up,
		Accepted:    l.accepted.Load(),
		Refused:     l.refused.Load(),
		Since:       l.since,
	}
}

// stop ends the accept loop; connections being made are given up, those that
// are up live on. The caller has made sure that it isn't started again.
func (l *listener) stop() {
	l.cancel()
	l.rl.Close()
	l.accepting.Wait()
}

// retryAccept is the pause after a failed accept, so that a provider that
// keeps failing doesn't spin.
const retryAccept = 100 * time.Millisecond

// accept takes connection requests until the listener stops. Each handshake
// has its own goroutine, which stays with the connection; a slow or silent
// peer holds one slot and delays nobody until all slots are held.
func (l *listener) accept() {
	for {
		select {
		case l.handshakes <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		req, err := l.rl.Accept(l.ctx)
		if err != nil {
			<-l.handshakes
			if l.ctx.Err() != nil || errors.Is(err, verbs.ErrClosed) {
				return
			}
			l.d.log.Error("accept failed", "listener", l.cfg.Name, "error", err)
			if !pause(l.ctx, retryAccept) {
				return
			}
			continue
		}
		l.accepting.Add(1)
		l.d.running.Go(func() {
			c, err := l.handshake(req)
			<-l.handshakes
			l.accepting.Done()
			if err != nil {
				l.refuse(req.RemoteAddr(), err)
				return
			}
			c.watch()
		})
	}
}

// pause waits for t and says whether ctx is still alive.
func pause(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refuse counts and logs a connection that didn't come up.
func (l *listener) refuse(peer netip.AddrPort, err error) {
	l.refused.Add(1)
	if l.ctx.Err() != nil {
		return // we are the reason
	}
	l.d.log.Warn("connection refused", "listener", l.cfg.Name, "peer", peer.String(), "reason", err.Error())
}

// handshake brings one connection up and puts it into the registry.
func (l *listener) handshake(req *rpcrdma.Request) (*conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.d.cfg.HandshakeTimeout)
	defer cancel()
	c, err := l.d.reserve(l, req.RemoteAddr())
	if err != nil {
		return nil, errors.Join(err, req.Reject(ctx))
	}
	rc, err := req.Accept(ctx, rpcrdma.ConnConfig{
		Handler:  l.handler,
		Settings: c.atConnect,
		Logger:   l.d.log.With("conn", c.key.ID, "listener", l.cfg.Name),
	})
	if err != nil {
		l.d.unreserve()
		return nil, err
	}
	c.rc = rc
	l.d.register(c)
	return c, nil
}
