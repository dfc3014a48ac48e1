//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"os"
	"slices"
)

// deviceGone ends the connections on a device that is gone. Their owners notice the end.
// The device stays open until all objects on it are closed.
func (p *Provider) deviceGone(o *openContext) {
	p.config.Logger.Error("rdmacore: device removed", "device", o.name)
	p.mu.Lock()
	if d := p.devices[o.c]; d != nil {
		delete(p.devices, o.c)
		p.leaving = append(p.leaving, d)
		close(d.removed)
		for _, other := range p.devices {
			if p.first == d {
				p.first = other
			}
		}
	}
	p.mu.Unlock()
	for _, q := range everything(func(q *queuePair) bool { return q.dev.ctx == o }) {
		q.fail(errRemoved)
	}
	p.lookAtListeners()
}

// lookAtDevices finds devices that the kernel wants to remove but has not reported. The
// order of its reports depends on the order of its modules, and it may be waiting for this
// process. lookAtDevices also takes new devices into use.
func (p *Provider) lookAtDevices() {
	p.lookForRemoved()
	now := deviceFiles()
	if slices.Equal(now, p.files) {
		return
	}
	p.files = now
	var list []*C.struct_ibv_context
	atHome(func() { list, _ = listDevices() }) // an error means that there are none
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range list {
		if p.devices[c] != nil {
			continue
		}
		if _, err := p.open(c); err != nil {
			p.config.Logger.Warn("rdmacore: new device", "error", err)
		}
	}
}

func (p *Provider) lookForRemoved() {
	p.mu.Lock()
	var missing []*openContext
	for _, d := range p.devices {
		if !d.ctx.there() {
			missing = append(missing, d.ctx)
		}
	}
	p.mu.Unlock()
	for _, o := range missing {
		o.remove()
	}
}

// deviceFiles returns the names of the files of the devices that the kernel offers.
func deviceFiles() (names []string) {
	entries, _ := os.ReadDir("/sys/class/infiniband_verbs")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// letGo closes the devices that are gone and have no objects left.
func (p *Provider) letGo() {
	var free []*device
	p.mu.Lock()
	p.leaving = slices.DeleteFunc(p.leaving, func(d *device) bool {
		if d.Live().Total() > 0 {
			return false
		}
		free = append(free, d)
		return true
	})
	p.mu.Unlock()
	for _, d := range free {
		p.closeDevice(d)
		p.config.Logger.Info("rdmacore: removed device closed", "device", d.ctx.name)
	}
}

// closeDevice closes a device that has no objects and gets no more events. It waits for the
// device's current events, which take p.mu.
func (p *Provider) closeDevice(d *device) {
	d.ctx.unsubscribe(p)
	_ = d.Close()
}
