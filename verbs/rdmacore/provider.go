//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/inventory"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Provider makes connections on the machine's RDMA devices. All methods may be
// called from any goroutine.
type Provider struct {
	config   Config
	channel  *C.struct_rdma_event_channel
	events   descriptor
	files    []string // see deviceFiles; of the goroutine that sweeps
	closing  chan struct{}
	done     sync.WaitGroup // the provider's goroutines, but for
	watching sync.WaitGroup // the one that takes events
	late     sync.WaitGroup // identifiers that are still to be freed

	mu      sync.Mutex
	devices map[*C.struct_ibv_context]*device
	leaving []*device // gone, but with objects
	held    []*connID // whose end is still to be told
	first   *device
	users   int // listeners and identifiers
	closed  bool
}

var _ rdmacm.Provider = (*Provider)(nil)

// New makes a provider. The error says in one line what is missing: a device,
// its files below /dev/infiniband, the right to use them.
func New(config Config) (*Provider, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Provider{config: config, devices: make(map[*C.struct_ibv_context]*device), closing: make(chan struct{})}
	if err := p.openDevices(); err != nil {
		return nil, err
	}
	if err := p.openChannel(); err != nil {
		p.closeDevices()
		return nil, err
	}
	p.files = deviceFiles()
	p.watching.Go(p.watch)
	p.done.Go(p.sweep)
	return p, nil
}

func (p *Provider) openChannel() error {
	var rc C.int
	atHome(func() { rc = C.rdmad_create_channel(&p.channel) })
	if rc != 0 {
		return missing(failed("connection manager", rc))
	}
	var err error
	if p.events, err = newDescriptor(int(p.channel.fd), "connection manager"); err != nil {
		C.rdma_destroy_event_channel(p.channel)
	}
	return err
}

func (p *Provider) openDevices() error {
	var list []*C.struct_ibv_context
	var err error
	atHome(func() { list, err = listDevices() })
	if err != nil {
		return missing(err)
	}
	p.mu.Lock() // a device's events come as soon as it is open
	defer p.mu.Unlock()
	var unusable error
	for _, c := range list {
		d, err := p.open(c)
		if err != nil {
			unusable = err
			p.config.Logger.Warn("rdmacore: device left out", "error", err)
			continue
		}
		if d != nil && (p.first == nil || !p.first.up() && d.up()) {
			p.first = d
		}
	}
	if p.first == nil {
		return noDevice(p.config.Tuning.Device, deviceNames(inventory.ClassDir), unusable)
	}
	return nil
}

// open takes a device into use; nil when it is not one to use.
func (p *Provider) open(c *C.struct_ibv_context) (*device, error) {
	o, err := acquire(c)
	if err != nil {
		return nil, err
	}
	if p.config.Tuning.Device != "" && o.name != p.config.Tuning.Device {
		o.release()
		return nil, nil
	}
	d := newDevice(o, &p.config)
	p.devices[c] = d
	if p.first != nil && p.devices[p.first.ctx.c] != p.first {
		p.first = d // in place of one that is gone
	}
	o.subscribe(p)
	return d, nil
}

// closeDevices closes all of them, when nobody else uses the provider.
func (p *Provider) closeDevices() {
	p.mu.Lock()
	all := p.inUse()
	p.mu.Unlock()
	for _, d := range all {
		p.closeDevice(d)
	}
}

// device gives the device of an identifier, which may have come since New.
func (p *Provider) device(id *C.struct_rdma_cm_id) (*device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.devices[id.verbs]; d != nil {
		return d, nil
	}
	if id.verbs == nil {
		return nil, fmt.Errorf("rdmacore: %w: no device for the address", rdmacm.ErrUnreachable)
	}
	d, err := p.open(id.verbs)
	if d == nil && err == nil {
		err = fmt.Errorf("rdmacore: the address is not one of device %s: %w", p.config.Tuning.Device, verbs.ErrInvalid)
	}
	return d, err
}

// Name is ProviderName.
func (p *Provider) Name() string { return ProviderName }

// Device is the configured device, or the first one that is up; the next one in
// use when that is gone.
func (p *Provider) Device() verbs.Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

// use counts one more listener or identifier.
func (p *Provider) use() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return verbs.ErrClosed
	}
	p.users++
	return nil
}

func (p *Provider) unuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
}

// Close frees the devices and ends the provider's goroutines.
func (p *Provider) Close() error {
	if closed, err := p.close(); closed || err != nil {
		return err
	}
	p.late.Wait()
	close(p.closing)
	p.done.Wait()
	p.tellHeld(func(*connID) bool { return true })
	p.events.close()
	p.watching.Wait()
	p.closeDevices()
	C.rdma_destroy_event_channel(p.channel)
	return nil
}

// close lets nobody use the provider any more, unless somebody does.
func (p *Provider) close() (before bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return true, nil
	}
	if p.users > 0 {
		return false, fmt.Errorf("rdmacore: %d listeners and connections: %w", p.users, verbs.ErrBusy)
	}
	for _, d := range p.inUse() {
		if n := d.Live().Total(); n > 0 {
			return false, fmt.Errorf("rdmacore: device %s with %d objects: %w", d.attr.Name, n, verbs.ErrBusy)
		}
	}
	p.closed = true
	return false, nil
}

// inUse are the devices that are open, those that are gone included.
func (p *Provider) inUse() []*device {
	return append(slices.Collect(maps.Values(p.devices)), p.leaving...)
}

// sweepTime is how long a failure may go unseen on a queue pair whose
// completions nobody takes. Unlike iWARP, InfiniBand tells nothing else: a peer
// that refuses a request ends no connection.
const sweepTime = 100 * time.Millisecond

func (p *Provider) sweep() {
	t, devices := time.NewTicker(sweepTime), time.NewTicker(lookTime)
	defer t.Stop()
	defer devices.Stop()
	for {
		select {
		case <-p.closing:
			return
		case <-t.C:
			for _, c := range p.completionQueues() {
				c.sweep()
			}
			p.letGo()
		case now := <-devices.C:
			p.lookAtDevices()
			p.lookAtPaths(now)
			for _, q := range queuePairs(func(q *queuePair) bool { return q.dev.config == &p.config }) {
				q.keepAlive(now, p.config.Tuning.KeepAlive)
			}
		}
	}
}

// completionQueues are those on the provider's devices that need to be swept.
func (p *Provider) completionQueues() (all []*completionQueue) {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	for _, v := range handles.entries {
		if c, ok := v.(*completionQueue); ok && c.dev.config == &p.config && !c.dev.iwarp() {
			all = append(all, c)
		}
	}
	return all
}

// parse resolves host:port; an empty host is any address. A host's first IPv4
// address counts, or else its first.
func parse(ctx context.Context, address string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("rdmacore: %w: %w", verbs.ErrInvalid, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return netip.AddrPort{}, invalid(fmt.Sprintf("port %q", service))
	}
	if host == "" {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), nil
	}
	if a, err := netip.ParseAddr(host); err == nil { // the resolver loses zones
		return netip.AddrPortFrom(a.Unmap(), uint16(port)), nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	switch {
	case ctx.Err() != nil:
		return netip.AddrPort{}, ctx.Err()
	case err != nil:
		return netip.AddrPort{}, fmt.Errorf("rdmacore: %w: %w", rdmacm.ErrUnreachable, err)
	}
	chosen := addrs[0]
	for _, a := range addrs {
		if a.Unmap().Is4() {
			chosen = a.Unmap()
			break
		}
	}
	return netip.AddrPortFrom(chosen, uint16(port)), nil
}
