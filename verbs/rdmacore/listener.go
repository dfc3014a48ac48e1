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

// listener holds the connection requests that arrived at an address. When its identifier is
// lost with its device or address, it gets a new one (see health.go).
type listener struct {
	p        *Provider
	handle   uint64
	at       netip.AddrPort // where to listen again, with the port that was bound
	requests *peers.Queue[rdmacm.ID]
	channel  *channel
	watching sync.WaitGroup // the goroutine that reads its events
	closing  chan struct{}  // ends guard
	look     chan struct{}  // makes guard check at once
	guarding sync.WaitGroup

	// Listen uses these fields first, then guard, then Close:
	c    *C.struct_rdma_cm_id // nil while there is none
	dev  *device              // the device to which c is bound; nil for all devices
	port port                 // the port of dev
	// The index of the interface that has the address; 0 if several have it.
	iface  int
	socket bool // siw may have a TCP socket for c, see socket.go

	mu      sync.Mutex
	closed  bool
	addr    netip.AddrPort
	lost    error // why the identifier can no longer be used
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
	if l.channel, err = openChannel(); err != nil {
		p.users.Unuse()
		return nil, filesError(err)
	}
	l.handle = handles.add(l)
	if err := l.listen(at); err != nil {
		handles.remove(l.handle)
		l.channel.events.close()
		l.channel.free()
		p.users.Unuse()
		return nil, err
	}
	l.at = netip.AddrPortFrom(at.Addr(), l.addr.Port())
	l.settle()
	l.reason = l.examine()
	l.watching.Go(func() { p.watch(l.channel, l.awaitRoom) })
	l.guarding.Go(l.guard)
	return l, nil
}

// awaitRoom leaves requests to the connection manager of InfiniBand and RoCE while the queue
// is full. The kernel keeps as many as the backlog, and asks their peers for patience (MRA,
// InfiniBand specification 12.6.6). It drops further ones, which their peers send again. On
// iWARP it rejects these, and iw_cm of some kernels crashes then.
func (l *listener) awaitRoom() {
	if !l.p.hasIWARP() {
		l.requests.AwaitRoom(l.p.config.roomTimeout)
	}
}

func (l *listener) listen(at netip.AddrPort) error {
	if rc := command(func() C.int { return C.rdmad_create_id(l.channel.c, C.uint64_t(l.handle), &l.c) }); rc != 0 {
		return failed("create identifier", rc)
	}
	a := toC(at)
	var rc C.int
	atHome(func() { rc = C.rdmad_listen(l.c, &a, C.int(l.p.config.Backlog)) }) // binding to the address of a new device opens that device
	if rc != 0 {
		l.stop()
		return listenError(at, rc)
	}
	l.dev, l.port = nil, port{}
	if l.c.verbs != nil { // the device is now in use, so that its events are read
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
	l.socket, _ = listensTCP(netip.AddrPortFrom(at.Addr(), l.addr.Port()))
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

// event processes an event of the listener.
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

// note logs a connection request that is dropped.
func (l *listener) note(peer netip.AddrPort, err error) {
	l.p.config.Logger.Warn("rdmacore: connection request dropped", "listener", l.Addr(), "peer", peer, "error", err)
}

// errCrowded is the reason to reject a request that is replaced by another.
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
	l.channel.events.close()
	l.watching.Wait()
	handles.remove(l.handle)
	l.stop()
	l.channel.free()
	for _, id := range left {
		_ = id.Close()
	}
	l.p.users.Unuse()
	return nil
}
