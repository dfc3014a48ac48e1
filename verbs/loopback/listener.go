package loopback

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// listener holds the connection requests that arrived at an address.
type listener struct {
	provider *Provider
	addr     netip.AddrPort
	requests chan *end
	done     chan struct{}

	mu     sync.Mutex // orders offer and Close
	closed bool
}

// Listen binds an address of the fabric. Port 0 selects a free one. It returns ErrBusy if
// there is a listener already.
func (p *Provider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	addr, err := p.parse(address)
	if err != nil {
		return nil, err
	}
	l := &listener{
		provider: p,
		requests: make(chan *end, p.backlog),
		done:     make(chan struct{}),
	}
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	if err := l.bind(addr); err != nil {
		p.users.Unuse()
		return nil, err
	}
	return l, nil
}

func (l *listener) bind(addr netip.AddrPort) error {
	f := l.provider.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if addr.Port() == 0 {
		free, ok := f.freePort(addr.Addr())
		if !ok {
			return fmt.Errorf("loopback: listen on %s: no free port: %w", addr, verbs.ErrBusy)
		}
		addr = free
	}
	if f.listeners[addr] != nil {
		return fmt.Errorf("loopback: listen on %s: %w", addr, verbs.ErrBusy)
	}
	l.addr = addr
	f.listeners[addr] = l
	return nil
}

// freePort returns a port of host without a listener. f.mu is held.
func (f *Fabric) freePort(host netip.Addr) (netip.AddrPort, bool) {
	for range 1<<16 - firstPort {
		a := netip.AddrPortFrom(host, f.nextPort())
		if f.listeners[a] == nil {
			return a, true
		}
	}
	return netip.AddrPort{}, false
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

// GetRequest waits for a request whose sender has not given up.
func (l *listener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	for {
		select {
		case <-l.done:
			return nil, verbs.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		case e := <-l.requests:
			switch {
			case !e.pending():
				_ = e.Close()
			case ctx.Err() == nil:
				return e, nil
			case l.offer(e) != nil: // others took its place meanwhile
				_ = e.Close()
			}
		}
	}
}

// offer queues a request, unless the listener is closed or its backlog is full.
func (l *listener) offer(e *end) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return rdmacm.ErrUnreachable
	}
	select {
	case l.requests <- e:
		return nil
	default:
		return &rdmacm.RejectedError{}
	}
}

// Close unbinds the address and rejects the requests not yet fetched.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	l.mu.Unlock()

	f := l.provider.fabric
	f.mu.Lock()
	delete(f.listeners, l.addr)
	f.mu.Unlock()
	for {
		select {
		case e := <-l.requests:
			_ = e.Close()
		default:
			l.provider.users.Unuse()
			return nil
		}
	}
}
