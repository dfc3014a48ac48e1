//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// Private data that fits beside the transport's own: InfiniBand's REQ, REP and
// REJ messages (InfiniBand specification 12.6.5, 12.6.7, 12.6.8; the IP
// addressing annex A11 takes 36 bytes of the REQ), and an MPA frame.
const (
	requestData = 56
	replyData   = 196
	rejectData  = 148
	siwData     = 251 // it counts in 8 bits what must not exceed 256 with its own 4
)

// answerTimeout bounds the peer's part in a connection whose maker sets no
// deadline.
const answerTimeout = 10 * time.Second

// fits says how much private data a message of the device's transport carries.
func (d *device) fits(infiniBand int) int {
	switch {
	case d.is(vendorSIW):
		return siwData
	case d.iwarp():
		return rdmacm.MaxPrivateData
	}
	return infiniBand
}

// param checks and bounds what this side tells the peer.
func (id *connID) param(p *rdmacm.ConnParam, most int) (*C.struct_rdmad_param, error) {
	if len(p.PrivateData) > most {
		return nil, fmt.Errorf("rdmacore: %d bytes of private data, %d fit: %w", len(p.PrivateData), most, rdmacm.ErrPrivateData)
	}
	a := &id.dev.attr
	p.ResponderResources = min(max(p.ResponderResources, 0), a.MaxQPRdAtom, math.MaxUint8)
	p.InitiatorDepth = min(max(p.InitiatorDepth, 0), a.MaxQPInitRdAtom, math.MaxUint8)
	t := &id.p.config.Tuning
	c := &C.struct_rdmad_param{
		responder_resources: C.uint8_t(p.ResponderResources), initiator_depth: C.uint8_t(p.InitiatorDepth),
		retry_count: C.uint8_t(min(t.RetryCount, id.dev.mostRetries())), rnr_retry_count: C.uint8_t(t.RNRRetryCount),
		min_rnr_timer: C.uint8_t(tuning.RNRTimerCode(t.RNRTimer)), private_len: C.uint8_t(len(p.PrivateData)),
	}
	if t.AckTimeout > 0 {
		c.ack_timeout = C.uint8_t(tuning.AckTimeoutCode(t.AckTimeout))
	}
	for i, b := range p.PrivateData {
		c.private_data[i] = C.uint8_t(b)
	}
	return c, nil
}

// Resolve implements rdmacm.Provider.
func (p *Provider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	to, err := parse(ctx, address)
	if err != nil {
		return nil, err
	}
	if to.Port() == 0 {
		return nil, invalid("port 0")
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	id := newID(p)
	if rc := command(func() C.int { return C.rdmad_create_id(p.channel, C.uint64_t(id.handle), &id.c) }); rc != 0 {
		handles.remove(id.handle)
		p.unuse()
		return nil, failed("create identifier", rc)
	}
	a := toC(to)
	if err := id.resolve(ctx, &a); err != nil {
		id.destroy()
		p.unuse()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("rdmacore: %s: %w", to, err)
	}
	id.remote = to
	return id, nil
}

func (id *connID) resolve(ctx context.Context, to *C.struct_rdmad_address) (err error) {
	ms := C.int(id.p.config.ResolveTimeout / time.Millisecond)
	if rc := command(func() C.int { return C.rdmad_resolve_addr(id.c, to, ms) }); rc != 0 {
		return fmt.Errorf("%w: resolve address: %w", rdmacm.ErrUnreachable, syscall.Errno(rc))
	}
	if _, err := id.await(ctx, C.RDMA_CM_EVENT_ADDR_RESOLVED, C.RDMA_CM_EVENT_ADDR_RESOLVED); err != nil {
		return err
	}
	if id.dev, err = id.p.device(id.c); err != nil {
		return err
	}
	if rc := command(func() C.int { return C.rdmad_resolve_route(id.c, ms) }); rc != 0 {
		return fmt.Errorf("%w: resolve route: %w", rdmacm.ErrUnreachable, syscall.Errno(rc))
	}
	_, err = id.await(ctx, C.RDMA_CM_EVENT_ROUTE_RESOLVED, C.RDMA_CM_EVENT_ROUTE_RESOLVED)
	id.local = localAddress(id.c)
	return err
}

// Connect implements rdmacm.ID.
func (id *connID) Connect(ctx context.Context, p rdmacm.ConnParam) error {
	c, err := id.param(&p, id.dev.fits(requestData))
	if err != nil {
		return err
	}
	if err := id.begin(idResolved); err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTimeout)
		defer cancel()
	}
	if err := id.connect(ctx, &p, c); err != nil {
		id.done(idFailed)
		if errors.Is(err, ctx.Err()) {
			return ctx.Err()
		}
		return fmt.Errorf("rdmacore: connecting to %s: %w", id.RemoteAddr(), err)
	}
	id.done(idConnected)
	return nil
}

func (id *connID) connect(ctx context.Context, own *rdmacm.ConnParam, c *C.struct_rdmad_param) error {
	qp := id.queuePair()
	c.qp_num = qp.deviceNum
	if err := id.call(ctx, c); err != nil {
		return err
	}
	e, err := id.await(ctx, C.RDMA_CM_EVENT_CONNECT_RESPONSE, C.RDMA_CM_EVENT_ESTABLISHED)
	id.agreed(own, &e)
	if err != nil {
		return err
	}
	if e.kind == C.RDMA_CM_EVENT_CONNECT_RESPONSE {
		c.responder_resources, c.initiator_depth = C.uint8_t(id.ird), C.uint8_t(id.ord)
		if err := qp.ready(c); err != nil {
			return err
		}
		if rc := command(func() C.int { return C.rdmad_establish(id.c) }); rc != 0 {
			return failed("establish", rc)
		}
	}
	if !qp.establish() {
		return qp.Err()
	}
	qp.awaitPeer()
	return nil
}

// call calls rdma_connect, which may take its time.
func (id *connID) call(ctx context.Context, c *C.struct_rdmad_param) error {
	calling := make(chan struct{})
	id.mu.Lock()
	id.calling = calling
	id.mu.Unlock()
	var rc C.int
	go func() {
		defer close(calling)
		rc = dialing.command(func() C.int { return C.rdmad_connect(id.c, c) })
	}()
	select {
	case <-calling:
	case <-ctx.Done():
		return ctx.Err()
	case <-id.closing:
		return errNoConnection
	}
	switch err := syscall.Errno(rc); err {
	case 0:
		return nil
	case syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT:
		return fmt.Errorf("%w: %w", rdmacm.ErrUnreachable, err)
	default:
		return failed("connect", rc)
	}
}

// agreed keeps the peer's half of the parameters. An active side on iWARP is
// told the numbers in force as its own, elsewhere as the peer meant them for it.
func (id *connID) agreed(own *rdmacm.ConnParam, e *event) {
	ird, ord := e.responder, e.initiator
	if id.dev.iwarp() {
		ird, ord = ord, ird
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	id.peer = rdmacm.ConnParam{PrivateData: e.data, ResponderResources: ord, InitiatorDepth: ird}
	id.ird, id.ord = min(own.ResponderResources, ird), min(own.InitiatorDepth, ord)
	id.local = localAddress(id.c)
}
