package loopback

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/peers"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// listener holds the connection requests that arrived at an address.
type listener struct {
	provider *Provider
	addr     netip.AddrPort
	requests *peers.Queue[*end]
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
	l := &listener{provider: p, requests: peers.NewQueue[*end](p.backlog)}
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
		e, err := l.requests.Get(ctx)
		if err != nil {
			return nil, err
		}
		if e.pending() {
			return e, nil
		}
		_ = e.Close()
	}
}

// offer queues a request. If there is no room, a request is rejected for it.
func (l *listener) offer(e *end) error {
	lost, err := l.requests.Put(e.RemoteAddr().Addr(), e)
	if err != nil {
		return rdmacm.ErrUnreachable
	}
	if lost != nil {
		_ = lost.Value.Close()
	}
	return nil
}

// Close unbinds the address and rejects the requests not yet fetched.
func (l *listener) Close() error {
	f := l.provider.fabric
	f.mu.Lock()
	bound := f.listeners[l.addr] == l
	if bound {
		delete(f.listeners, l.addr)
	}
	f.mu.Unlock()
	if !bound {
		return nil
	}
	for _, e := range l.requests.Close() {
		_ = e.Close()
	}
	l.provider.users.Unuse()
	return nil
}
