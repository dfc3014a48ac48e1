//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/inventory"
	"github.com/rdmad/rdmad/verbs/notices"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Provider makes connections on the machine's RDMA devices. Its methods are safe for
// concurrent use.
type Provider struct {
	config   Config
	channel  *channel
	notices  *notices.Notices // of its completion queues
	files    []string         // see deviceFiles; used by the goroutine that sweeps
	closing  chan struct{}
	done     sync.WaitGroup // the provider's goroutines, except
	watching sync.WaitGroup // the one that reads events
	users    driver.Users   // listeners and identifiers

	mu      sync.Mutex
	devices map[*C.struct_ibv_context]*device
	leaving []*device // gone, but with objects
	held    []*connID // identifiers whose peers are not notified of the end yet
	first   *device
	iwarp   bool // the machine has, or had, a device of iWARP
}

var _ rdmacm.Provider = (*Provider)(nil)

// New makes a provider. Its error says in one line what is missing: a device, its files
// below /dev/infiniband, or the right to use them.
func New(config Config) (*Provider, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Provider{config: config, devices: make(map[*C.struct_ibv_context]*device), closing: make(chan struct{})}
	if p.notices, err = notices.New(noticed); err != nil {
		return nil, fmt.Errorf("rdmacore: completion channels: %w", err)
	}
	if err := p.openDevices(); err != nil {
		p.notices.Close()
		return nil, err
	}
	if p.channel, err = openChannel(); err != nil {
		p.closeDevices()
		p.notices.Close()
		return nil, missing(err)
	}
	p.files = deviceFiles()
	p.watching.Go(func() { p.watch(p.channel, func() {}) })
	p.done.Go(p.sweep)
	return p, nil
}

// noticed passes on an event of an idle completion queue.
func noticed(handle uint64) {
	if c, ok := handles.get(handle).(*completionQueue); ok {
		c.noticed()
	}
}

func (p *Provider) openDevices() error {
	var list []*C.struct_ibv_context
	var err error
	atHome(func() { list, err = listDevices() })
	if err != nil {
		return missing(err)
	}
	p.mu.Lock() // events of the device come as soon as it is open
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

// open takes a device into use. It returns nil when the provider does not use the device.
func (p *Provider) open(c *C.struct_ibv_context) (*device, error) {
	// Listeners on all addresses get requests through devices that are not in use, too.
	p.iwarp = p.iwarp || c.device.transport_type == C.IBV_TRANSPORT_IWARP
	o, err := acquire(c)
	if err != nil {
		return nil, err
	}
	if p.config.Tuning.Device != "" && o.name != p.config.Tuning.Device {
		o.release()
		return nil, nil
	}
	d := newDevice(o, p)
	p.devices[c] = d
	if p.first != nil && p.devices[p.first.ctx.c] != p.first {
		p.first = d // replaces a device that is gone
	}
	o.subscribe(p)
	return d, nil
}

// closeDevices closes all devices. The provider must have no other users.
func (p *Provider) closeDevices() {
	p.mu.Lock()
	all := p.inUse()
	p.mu.Unlock()
	for _, d := range all {
		p.closeDevice(d)
	}
}

// device returns the device of an identifier. The device may be new since New.
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

// hasIWARP returns iwarp.
func (p *Provider) hasIWARP() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.iwarp
}

// Name returns ProviderName.
func (p *Provider) Name() string { return ProviderName }

// Descriptors returns Descriptors.
func (p *Provider) Descriptors() int { return Descriptors }

// Device returns the configured device, or the first one that is up. If that device is
// gone, it returns the next one in use.
func (p *Provider) Device() verbs.Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

// Close frees the devices and ends the provider's goroutines.
func (p *Provider) Close() error {
	if first, err := p.users.Close("rdmacore: provider", p.unused); !first {
		return err
	}
	close(p.closing)
	p.done.Wait()
	p.tellHeld(func(*connID) bool { return true })
	p.channel.events.close()
	p.watching.Wait()
	p.closeDevices()
	p.notices.Close()
	p.channel.free()
	return nil
}

// unused returns an error while one of the devices has objects.
func (p *Provider) unused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.inUse() {
		if n := d.Live().Total(); n > 0 {
			return fmt.Errorf("rdmacore: device %s with %d objects: %w", d.Attrs.Name, n, verbs.ErrBusy)
		}
	}
	return nil
}

// inUse returns the open devices, including those that are gone.
func (p *Provider) inUse() []*device {
	return append(slices.Collect(maps.Values(p.devices)), p.leaving...)
}

// sweepTime is the longest time until a failure is noticed on a queue pair whose
// completions nobody polls. InfiniBand, unlike iWARP, reports it in no other way: when a
// peer refuses a request, the connection does not end.
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
			for _, c := range everything(func(c *completionQueue) bool { return c.dev.config == &p.config && !c.dev.iwarp() }) {
				c.sweep()
			}
			p.letGo()
		case now := <-devices.C:
			p.lookAtDevices()
			p.lookAtPaths(now)
			for _, q := range everything(func(q *queuePair) bool { return q.dev.config == &p.config }) {
				q.keepAlive(now, p.config.Tuning.KeepAlive)
			}
		}
	}
}
