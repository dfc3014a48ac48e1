//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/inventory"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

const (
	// settleTime is how long the network needs for routes and addresses after a port came
	// up.
	settleTime = time.Second
	// hearingTimeout bounds the time for a device's answer to its own request.
	hearingTimeout = 5 * time.Second
	// nobodysPort is a port on which nobody listens.
	nobodysPort = 1
)

// doubt requests a check once the network has settled: of the device's connections and, on
// rxe, of its connection manager.
func (d *device) doubt() { d.doubted.Store(time.Now().UnixNano()) }

// lookAtPaths notifies the peers of held ends that have a path now, and checks devices that
// are in doubt.
func (p *Provider) lookAtPaths(now time.Time) {
	p.tellHeld(func(id *connID) bool { return id.dev.ctx.isGone() || id.pathOpen() })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		since := d.doubted.Load()
		if since == 0 || now.Sub(time.Unix(0, since)) < settleTime || !d.doubted.CompareAndSwap(since, 0) {
			continue
		}
		for _, q := range everything(func(q *queuePair) bool { return q.dev == d }) {
			q.probe()
		}
		if d.is(vendorRXE) && !d.listening.Swap(true) {
			p.done.Go(func() { p.checkHearing(d) })
		}
	}
}

// checkHearing checks whether an rxe device has become deaf (see path.go). While the device
// is deaf, the check is repeated.
func (p *Provider) checkHearing(d *device) {
	defer d.listening.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), hearingTimeout)
	defer cancel()
	go func() {
		select {
		case <-p.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	own, ok := d.ownAddress()
	if !ok {
		d.doubt()
		return
	}
	hears, err := p.answers(ctx, d, own)
	if err != nil || d.ctx.isGone() {
		return // nothing is known; other checks report the problem
	}
	if !hears {
		d.doubt()
	}
	if d.deaf.Swap(!hears) == hears {
		p.config.Logger.Error("rdmacore: connection manager", "device", d.ctx.nameNow(), "hears", hears)
		p.lookAtListeners()
	}
}

// isDeaf reports whether the provider's device of this name is deaf.
func (p *Provider) isDeaf(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		if d.ctx.nameNow() == name && d.deaf.Load() {
			return true
		}
	}
	return false
}

// ownAddress returns an address at which an rxe device can reach itself now.
func (d *device) ownAddress() (netip.Addr, bool) {
	name := d.ctx.nameNow()
	i, err := rxeInterface(name)
	if err != nil {
		return netip.Addr{}, false
	}
	all, err := i.Addrs()
	if err != nil || (port{name, 1}).trouble(inventory.ClassDir) != nil {
		return netip.Addr{}, false
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own := p.Addr()
			if own.IsLinkLocalUnicast() && own.Is6() {
				own = own.WithZone(strconv.Itoa(i.Index))
			}
			if pathOpen(name, own, own) {
				return own, true
			}
		}
	}
	return netip.Addr{}, false
}

// answers reports whether the device's connection manager answers a request from itself.
// The expected answer is a rejection.
func (p *Provider) answers(ctx context.Context, d *device, at netip.Addr) (bool, error) {
	id := newID(p)
	if rc := command(func() C.int { return C.rdmad_create_id(p.channel.c, C.uint64_t(id.handle), &id.c) }); rc != 0 {
		handles.remove(id.handle)
		return false, failed("create identifier", rc)
	}
	defer id.destroy()
	to := toC(netip.AddrPortFrom(at, nobodysPort))
	if err := id.resolve(ctx, &to); err != nil {
		return false, err
	}
	if id.dev != d {
		return false, errOtherDevice
	}
	c, err := id.param(&rdmacm.ConnParam{}, requestData)
	if err != nil {
		return false, err
	}
	c.qp_num = 1 // no queue pair: no connection results
	if rc := command(func() C.int { return C.rdmad_connect(id.c, c, new(C.int)) }); rc != 0 {
		return false, failed("connect", rc)
	}
	e, err := id.await(ctx, C.RDMA_CM_EVENT_CONNECT_RESPONSE, C.RDMA_CM_EVENT_REJECTED)
	select {
	case <-p.closing:
		return false, verbs.ErrClosed
	default:
	}
	return err == nil || e.kind == C.RDMA_CM_EVENT_REJECTED, nil
}

var (
	errOtherDevice = errors.New("the address is another device's")
	errDeaf        = errors.New("hears no connection requests since a message found no way: remove and add it")
)
