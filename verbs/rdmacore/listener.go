//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/peers"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// listener holds the connection requests that arrived at an address. Its
// identifier is replaced when it is lost with its device or address (see
// health.go).
type listener struct {
	p        *Provider
	handle   uint64
	at       netip.AddrPort // to listen on again: the port is the one bound
	requests *peers.Queue[rdmacm.ID]
	closing  chan struct{} // ends guard
	look     chan struct{} // has guard look at once
	guarding sync.WaitGroup

	// Of Listen, then of guard, then of Close alone:
	c    *C.struct_rdma_cm_id // nil while there is none
	dev  *device              // to which it is bound; nil for all
	port port                 // of it
	// The index of the interface that has the address; 0 when more have it.
	iface int

	mu      sync.Mutex
	closed  bool
	addr    netip.AddrPort
	lost    error // why the identifier is of no use
	reason  error // see Health
	changed chan struct{}
}

var (
	_ rdmacm.Listener  = (*listener)(nil)
	_ rdmacm.Monitored = (*listener)(nil)
)

// Listen implements rdmacm.Provider. A wildcard address listens on all devices.
func (p *Provider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	at, err := driver.LookUp(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("rdmacore: %w", err)
	}
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	l := &listener{
		p: p, requests: peers.NewQueue[rdmacm.ID](p.config.Backlog), closing: make(chan struct{}),
		look: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	l.handle = handles.add(l)
	if err := l.listen(at); err != nil {
		handles.remove(l.handle)
		p.users.Unuse()
		return nil, err
	}
	l.at = netip.AddrPortFrom(at.Addr(), l.addr.Port())
	l.settle()
	l.reason = l.examine()
	l.guarding.Go(l.guard)
	return l, nil
}

func (l *listener) listen(at netip.AddrPort) error {
	if rc := command(func() C.int { return C.rdmad_create_id(l.p.channel, C.uint64_t(l.handle), &l.c) }); rc != 0 {
		return failed("create identifier", rc)
	}
	a := toC(at)
	var rc C.int
	atHome(func() { rc = C.rdmad_listen(l.c, &a, C.int(l.p.config.Backlog)) }) // to bind to a new device's address opens it
	if rc != 0 {
		l.stop()
		return listenError(at, rc)
	}
	l.dev, l.port = nil, port{}
	if l.c.verbs != nil { // in use from now on, so that its events are heard
		dev, err := l.p.device(l.c)
		if err != nil {
			l.stop()
			return err
		}
		l.dev, l.port = dev, port{dev.ctx.name, int(l.c.port_num)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addr = localAddress(l.c)
	return nil
}

// stop destroys the identifier, if there is one.
func (l *listener) stop() {
	if l.c != nil {
		command(func() C.int { return C.rdmad_destroy_id(l.c) })
		l.c = nil
	}
}

func (l *listener) Addr() netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// event takes what the connection manager says about a listener.
func (l *listener) event(c *C.struct_rdma_cm_id, e *event) {
	switch e.kind {
	case C.RDMA_CM_EVENT_CONNECT_REQUEST:
		l.request(c, e)
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		l.lose(errRemoved)
		e.removed()
	case C.RDMA_CM_EVENT_ADDR_CHANGE:
		l.lose(errMoved)
	default:
		l.p.config.Logger.Warn("rdmacore: listener", "address", l.Addr(), "event", e.String())
	}
}

// request queues a request for GetRequest, or drops it.
func (l *listener) request(c *C.struct_rdma_cm_id, e *event) {
	id, err := newRequest(l.p, c, e)
	if err != nil {
		l.note(peerAddress(c), err)
		command(func() C.int { return C.rdmad_reject(c, nil, 0) })
		command(func() C.int { return C.rdmad_destroy_id(c) })
		return
	}
	lost, err := l.requests.Put(id.RemoteAddr().Addr(), id)
	switch {
	case err != nil:
		l.drop(id, err)
	case lost != nil:
		l.drop(lost.Value, errCrowded)
	}
}

// drop rejects a request.
func (l *listener) drop(id rdmacm.ID, err error) {
	l.note(id.RemoteAddr(), err)
	_ = id.Close()
}

// note logs a request that is not served.
func (l *listener) note(peer netip.AddrPort, err error) {
	l.p.config.Logger.Warn("rdmacore: connection request dropped", "listener", l.Addr(), "peer", peer, "error", err)
}

// errCrowded is why a request is rejected that lost its room to another.
var errCrowded = errors.New("too many requests of this address, or of all, are waiting")

// GetRequest implements rdmacm.Listener.
func (l *listener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	return l.requests.Get(ctx)
}

// Close implements rdmacm.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.closing)
	l.mu.Unlock()
	left := l.requests.Close()
	l.guarding.Wait()
	handles.remove(l.handle)
	l.stop()
	for _, id := range left {
		_ = id.Close()
	}
	l.p.users.Unuse()
	return nil
}
