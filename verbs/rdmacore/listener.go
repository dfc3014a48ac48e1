//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

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
	p        *Provider
	c        *C.struct_rdma_cm_id
	handle   uint64
	addr     netip.AddrPort
	requests chan *connID
	closing  chan struct{}

	mu     sync.Mutex
	closed bool
}

var _ rdmacm.Listener = (*listener)(nil)

// Listen implements rdmacm.Provider. A wildcard address listens on all devices.
func (p *Provider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	at, err := parse(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	l := &listener{p: p, requests: make(chan *connID, p.config.Backlog), closing: make(chan struct{})}
	l.handle = handles.add(l)
	if err := l.listen(at); err != nil {
		handles.remove(l.handle)
		p.unuse()
		return nil, err
	}
	return l, nil
}

func (l *listener) listen(at netip.AddrPort) error {
	if rc := command(func() C.int { return C.rdmad_create_id(l.p.channel, C.uint64_t(l.handle), &l.c) }); rc != 0 {
		return failed("create identifier", rc)
	}
	a := toC(at)
	if rc := command(func() C.int { return C.rdmad_listen(l.c, &a, C.int(l.p.config.Backlog)) }); rc != 0 {
		command(func() C.int { return C.rdmad_destroy_id(l.c) })
		return listenError(at, rc)
	}
	l.addr = localAddress(l.c)
	return nil
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

// request queues a request for GetRequest, or drops it.
func (l *listener) request(c *C.struct_rdma_cm_id, e *event) {
	id, err := newRequest(l.p, c, e)
	if err != nil {
		command(func() C.int { return C.rdmad_reject(c, nil, 0) })
		command(func() C.int { return C.rdmad_destroy_id(c) })
	} else if err = l.queue(id); err != nil {
		_ = id.Close()
	}
	if err != nil {
		l.p.config.Logger.Warn("rdmacore: connection request dropped", "listener", l.addr, "error", err)
	}
}

func (l *listener) queue(id *connID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return verbs.ErrClosed
	}
	select {
	case l.requests <- id:
		return nil
	default:
		return fmt.Errorf("rdmacore: %d requests are waiting", cap(l.requests))
	}
}

// GetRequest implements rdmacm.Listener.
func (l *listener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	select {
	case <-l.closing:
		return nil, verbs.ErrClosed
	default:
	}
	select {
	case id := <-l.requests:
		return id, nil
	case <-l.closing:
		return nil, verbs.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
	handles.remove(l.handle)
	command(func() C.int { return C.rdmad_destroy_id(l.c) })
	for {
		select {
		case id := <-l.requests:
			_ = id.Close()
		default:
			l.p.unuse()
			return nil
		}
	}
}
