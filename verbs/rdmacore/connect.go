//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"cmp"
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// Largest private data, in bytes: in InfiniBand's REQ, REP and REJ messages (InfiniBand
// specification 12.6.5, 12.6.7, 12.6.8; the IP addressing annex A11 takes 36 bytes of the
// REQ), and in an MPA frame of siw.
const (
	requestData = 56
	replyData   = 196
	rejectData  = 148
	siwData     = 251 // siw counts in 8 bits; with its own 4 bytes at most 256 are allowed
)

// answerTimeout bounds the time for the peer's answer when the consumer sets no deadline.
const answerTimeout = 10 * time.Second

// fits returns how many bytes of private data a message of the device's transport carries.
func (d *device) fits(infiniBand int) int {
	switch {
	case d.is(vendorSIW):
		return siwData
	case d.iwarp():
		return rdmacm.MaxPrivateData
	}
	return infiniBand
}

// param checks and limits the parameters that are sent to the peer.
func (id *connID) param(p *rdmacm.ConnParam, most int) (*C.struct_rdmad_param, error) {
	var err error
	if *p, err = id.dev.CheckParam(*p, most); err != nil {
		return nil, fmt.Errorf("rdmacore: %w", err)
	}
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
	to, err := driver.LookUp(ctx, address)
	if err == nil && to.Port() == 0 {
		err = driver.Invalid("port 0")
	}
	if err != nil {
		return nil, fmt.Errorf("rdmacore: %w", err)
	}
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	id := newID(p)
	if rc := command(func() C.int { return C.rdmad_create_id(p.channel.c, C.uint64_t(id.handle), &id.c) }); rc != 0 {
		handles.remove(id.handle)
		p.users.Unuse()
		return nil, failed("create identifier", rc)
	}
	a := toC(to)
	if err := id.resolve(ctx, &a); err != nil {
		id.destroy()
		p.users.Unuse()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("rdmacore: %s: %w", to, err)
	}
	id.SetAddrs(localAddress(id.c), to)
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
	return err
}

// Connect implements rdmacm.ID.
func (id *connID) Connect(ctx context.Context, p rdmacm.ConnParam) error {
	c, err := id.param(&p, id.dev.fits(requestData))
	if err != nil {
		return err
	}
	return id.Call(ctx, driver.IDResolved, driver.IDConnected, func(ctx context.Context) error {
		ctx, cancel := answerTime(ctx)
		defer cancel()
		if err := id.connect(ctx, &p, c); err != nil {
			return fmt.Errorf("rdmacore: connecting to %s: %w", id.RemoteAddr(), err)
		}
		return nil
	})
}

// answerTime returns ctx, limited by answerTimeout if it has no deadline.
func answerTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerTimeout)
}

func (id *connID) connect(ctx context.Context, own *rdmacm.ConnParam, c *C.struct_rdmad_param) error {
	qp := id.QP()
	c.qp_num = qp.deviceNum
	calling := make(chan struct{})
	if !qp.lend(calling) {
		return qp.Err()
	}
	if err := id.call(ctx, c, calling, qp.dying); err != nil {
		return cmp.Or(qp.Err(), err)
	}
	e, err := id.await(ctx, C.RDMA_CM_EVENT_CONNECT_RESPONSE, C.RDMA_CM_EVENT_ESTABLISHED)
	id.agreed(own, &e)
	if err != nil {
		return err
	}
	if e.kind == C.RDMA_CM_EVENT_CONNECT_RESPONSE {
		ird, ord := id.Negotiated()
		c.responder_resources, c.initiator_depth = C.uint8_t(ird), C.uint8_t(ord)
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

// graceTime is how long a call of rdma_connect may go on after its caller has given up. Until
// then a host that answers gets a whole TCP connection: siw of others can take the early end of
// one for that of its listener (see socket.go).
const graceTime = time.Second

// call calls rdma_connect, which may block, and closes calling when it has returned. On siw a host
// that does not answer keeps it for two minutes.
func (id *connID) call(ctx context.Context, c *C.struct_rdmad_param, calling chan struct{}, dying <-chan struct{}) error {
	var rc C.int
	thread := new(C.int)
	go func() {
		defer close(calling)
		rc = dial(func() C.int {
			select {
			case <-ctx.Done(): // the call may come late, and nobody waits for it
				return C.ECANCELED
			case <-dying:
				return C.ECANCELED
			default:
				return C.rdmad_connect(id.c, c, thread)
			}
		})
	}()
	select {
	case <-calling:
	case <-ctx.Done():
		go interrupt(thread, calling)
		return ctx.Err()
	case <-dying:
		go interrupt(thread, calling)
		return verbs.ErrQPState
	}
	switch err := syscall.Errno(rc); err {
	case 0:
		return nil
	case syscall.ECANCELED:
		return cmp.Or(ctx.Err(), failed("connect", rc))
	case syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT:
		return fmt.Errorf("%w: %w", rdmacm.ErrUnreachable, err)
	default:
		return failed("connect", rc)
	}
}

// interrupt ends a call of rdma_connect that nobody waits for.
func interrupt(thread *C.int, ended <-chan struct{}) {
	t := time.NewTicker(graceTime)
	defer t.Stop()
	for {
		select {
		case <-ended:
			return
		case <-t.C:
			C.rdmad_interrupt(thread)
		}
	}
}

// agreed stores the peer's parameters.
func (id *connID) agreed(own *rdmacm.ConnParam, e *event) {
	ird, ord := e.depths(id.dev.iwarp())
	peer := rdmacm.ConnParam{PrivateData: e.data, ResponderResources: ord, InitiatorDepth: ird}
	id.SetPeer(peer)
	id.SetNegotiated(driver.Negotiate(*own, peer))
	id.SetAddrs(localAddress(id.c), id.RemoteAddr())
}

// depths returns the most that an active side's IRD and ORD may be. Its event has the peer's
// numbers as seen from this side, but on iWARP this side's negotiated numbers. cxgb4 has these
// in the other order. So the IRD is 0, which means that the peer makes no RDMA Reads, only if
// both are.
func (e *event) depths(iwarp bool) (ird, ord int) {
	if !iwarp {
		return e.responder, e.initiator
	}
	if ird, ord = e.initiator, e.responder; ird == 0 {
		ird = ord
	}
	return ird, ord
}
