package dataplane

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// ListenerConfig describes a new listener.
type ListenerConfig struct {
	// Name is unique among listeners and connectors. Settings refer to it.
	Name     string
	Provider rdmacm.Provider
	// Address is host:port. With port 0 the system chooses the port.
	Address string
	// Service is the name of the handler for operators.
	Service string
	// Handler answers the calls. It may be a perconn.Opener.
	Handler oncrpc.Handler
	// Descriptors are the files that the handler opens for each connection.
	Descriptors int
	Limits      Limits
	Access      Access
	// From, if not nil, gives its address on: the new listener has the same provider and
	// address.
	From *Listener
}

// Listener accepts connections for one service.
type Listener struct {
	endpoint
	handler oncrpc.Handler // may be a perconn.Opener
	rl      *rpcrdma.Listener

	taking    context.Context // ends when the listener takes no more requests
	halt      context.CancelFunc
	ctx       context.Context // ends when connections being made are given up
	cancel    context.CancelFunc
	accepting sync.WaitGroup // the accept loop, and handshakes until the registry has the connection
	cameUp    chan struct{}  // holds a token when a handshake has ended
	running   sync.WaitGroup // connections, being made or up

	// disconnects counts connections that peers ended while calls were being served.
	disconnects atomic.Uint64
	evicted     evictions
	receivers   *receivers // shared with its successor at the address
	sharing     listenerSharing
	listenerGauges

	from *Listener // whose address it takes over; nil if it bound its own, and after Enter

	// Under Dataplane.mu:
	divided   bool // the division gave it memory
	succeeded bool // another has its name or its address
}

// PrepareListener binds a listener, which is neither listed nor accepts before Enter, and sets
// its memory aside. Remove frees it, also before Enter. The error is ErrShutdown, an
// *AccessError, a *NoMemoryError, or the provider's with the address.
func (d *Dataplane) PrepareListener(ctx context.Context, cfg ListenerConfig) (*Listener, error) {
	l := &Listener{
		endpoint: endpoint{
			kind: "listener", name: cfg.Name, provider: cfg.Provider, service: cfg.Service,
			defaults:    Limits{Handshakes: DefaultListenerHandshakes},
			descriptors: cfg.Provider.Descriptors() + cfg.Descriptors,
		},
		handler: cfg.Handler,
		sharing: listenerSharing{memory: rpcrdma.MinMemoryLimit},
		from:    cfg.From, receivers: new(receivers), cameUp: make(chan struct{}, 1),
	}
	l.table = func() connlimit.Limits { return l.limits.tableLimits() }
	if err := l.init(d, cfg.Limits, cfg.Access); err != nil {
		return nil, l.failed(err)
	}
	listening := rpcrdma.ListenConfig{
		Logger:      d.log.With("listener", cfg.Name),
		MemoryLimit: rpcrdma.MinMemoryLimit, // the division gives it more
	}
	var err error
	if cfg.From != nil {
		l.rl, l.receivers = cfg.From.rl.Successor(listening), cfg.From.receivers
	} else if l.rl, err = rpcrdma.Listen(ctx, cfg.Provider, cfg.Address, listening); err != nil {
		return nil, l.failed(err)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.taking, l.halt = context.WithCancel(l.ctx)
	if err := d.division.setAside(d, l); err != nil {
		l.Remove(ctx)
		return nil, l.failed(err)
	}
	return l, nil
}

// Enter lists the listener, in place of the one of its name, if any. From then on it accepts.
// The listener in whose place it is, and the one that gave its address on, accept no more.
// Their connections continue until Remove.
func (l *Listener) Enter() {
	d := l.d
	d.mu.Lock()
	if d.stopping {
		d.mu.Unlock()
		return
	}
	if old := d.listeners[l.name]; old != nil {
		d.leaving[old] = struct{}{}
		old.succeedLocked()
	}
	if l.from != nil {
		l.from.succeedLocked()
		l.from = nil // else each listener would keep all those before it
	}
	delete(d.prepared, l)
	d.listeners[l.name] = l
	d.mu.Unlock()
	d.division.step(d, true) // all its peers may connect at once
	d.mu.Lock()
	defer d.mu.Unlock()
	l.divided = true
	d.runLocked(l)
}

// succeedLocked ends the admission of requests, because another listener has the name or the
// address. Connections that are being made come up.
func (l *Listener) succeedLocked() {
	l.succeeded = true
	l.halt()
}

// runLocked starts l's accept loop if the data plane was started and l has its part of the
// memory. The caller holds Dataplane.mu.
func (d *Dataplane) runLocked(l *Listener) {
	if d.started && !d.stopping && l.divided && !l.draining && !l.succeeded {
		l.accepting.Go(l.accept)
		l.accepting.Go(l.followHealth)
		l.accepting.Go(func() { l.places.Run(l.taking) })
	}
}

// Removed says how the connections of a listener or connector ended.
type Removed struct {
	Drained int // all calls finished
	Cut     int // closed before all calls were finished
}

// Remove stops accepting and drains the connections. When ctx ends, it closes the remaining
// ones. Meanwhile a listener that no other has replaced is listed as draining. If Remove is
// called again meanwhile, the context that ends first decides. When it returns, nothing of the
// listener is left. Other listeners are not affected.
func (l *Listener) Remove(ctx context.Context) Removed {
	early := l.settle(ctx)
	l.Stopping()
	l.stop()
	removed := l.drain(ctx, nil)
	l.running.Wait()
	removed.Drained, removed.Cut = removed.Drained+early.Drained, removed.Cut+early.Cut
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	delete(l.d.prepared, l)
	delete(l.d.leaving, l)
	if l.d.listeners[l.name] == l {
		delete(l.d.listeners, l.name)
	}
	return removed
}

// settle lets the connections that are being made with a listener that has a successor come
// up, until ctx ends. At the same time it drains those that are up, and each as soon as it comes up:
// one that does not come up, because its peer is silent, must not use up their time.
func (l *Listener) settle(ctx context.Context) Removed {
	l.d.mu.Lock()
	succeeded := l.succeeded
	l.d.mu.Unlock()
	if !succeeded {
		return Removed{}
	}
	_ = l.rl.Unbind() // the successor's address may contain this one, whose clients would come here
	defer context.AfterFunc(ctx, l.cancel)()
	settled := make(chan struct{})
	go func() {
		l.accepting.Wait()
		close(settled)
	}()
	return l.drain(ctx, func() bool {
		select {
		case <-l.cameUp:
			return true
		case <-settled:
			return false
		}
	})
}

// EndDenied ends the connections that may no longer connect, and returns their number.
// register does the same for connections that come up meanwhile.
func (l *Listener) EndDenied() int {
	access := l.access.Load()
	denied := l.d.choose(func(c *conn) bool { return c.l == l && !access.Permits(c.key.Peer) })
	var closing sync.WaitGroup
	for _, c := range denied {
		closing.Go(func() { c.end(reasonDenied) })
	}
	closing.Wait()
	return len(denied)
}

// ListenerInfo describes a listener.
type ListenerInfo struct {
	EndpointInfo
	Service   string
	Trouble   string           // with StateDegraded: the reason
	Evictions connlimit.Counts // connections that lost their places, by reason
}

// Info describes the listener.
func (l *Listener) Info() ListenerInfo {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	return l.infoLocked()
}

// Sockets returns the TCP sockets of the listener, if its provider uses TCP.
func (l *Listener) Sockets() []net.Listener { return l.rl.Sockets() }

// Listeners describes all listeners, by name.
func (d *Dataplane) Listeners() []ListenerInfo { return described(d, d.listeners) }

func (l *Listener) infoLocked() ListenerInfo {
	info := ListenerInfo{EndpointInfo: l.commonLocked(l.rl.Addr()), Service: l.service, Evictions: l.evicted.snapshot()}
	if _, reason := l.rl.Health(); reason != nil && info.State == StateUp {
		info.State, info.Trouble = StateDegraded, reason.Error()
	}
	return info
}

// stop ends the accept loop. Connections being made are given up, and those that are up
// continue. The caller makes sure that the loop is not started again.
func (l *Listener) stop() {
	l.cancel()
	l.rl.Close()
	l.accepting.Wait()
}
