package rpcrdma_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// removableProvider is one whose device can be taken away, and is another after
// that.
type removableProvider struct {
	*wrappedProvider
	mu  sync.Mutex
	dev *removableDevice
}

type removableDevice struct {
	verbs.Device
	removed chan struct{}
}

func (d *removableDevice) Removed() <-chan struct{} { return d.removed }

func newRemovable() *removableProvider {
	p := new(removableProvider)
	p.wrappedProvider = &wrappedProvider{loopback.New(loopback.Config{}), func(id rdmacm.ID, _ bool) rdmacm.ID {
		p.mu.Lock()
		defer p.mu.Unlock()
		return removableID{id, p.dev}
	}}
	p.dev = &removableDevice{p.Device(), make(chan struct{})}
	return p
}

// remove takes the device away.
func (p *removableProvider) remove() { close(p.next().removed) }

// next makes another device the one of connections from now on.
func (p *removableProvider) next() (before *removableDevice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.dev = p.dev, &removableDevice{p.Device(), make(chan struct{})}
	return before
}

type removableID struct {
	rdmacm.ID
	dev verbs.Device
}

func (i removableID) Device() verbs.Device { return i.dev }

// A listener gives a device back that is gone, as soon as its connections have
// ended and while it has others; so does a client that would connect again.
func TestRemovedDevice(t *testing.T) {
	p := newRemovable()
	b := newBed(t, p, bedConfig{})
	live := p.Device().(verbs.LiveCounter)
	c, err := rpcrdma.Dial(b.ctx, refereetest.Around(b.t, p), b.l.Addr().String(), rpcrdma.DialConfig{Reconnect: &rpcrdma.Reconnect{}})
	must(t, err)
	conn := <-b.conns
	must(t, plain(b.ctx, c, procNull))
	p.remove()
	<-c.Done()
	<-conn.Done()
	b.waitFree(live)
	if err := plain(b.ctx, c, procNull); !errors.Is(err, rpcrdma.ErrClosed) {
		t.Errorf("a call without the device: %v", err)
	}
	c2, conn2 := b.dial(nil) // on the next device
	should(t, plain(b.ctx, c2, procNull))
	c2.Close()
	<-conn2.Done()
}

// An idle listener gives it back, too, and so does one that is closed first.
func TestRemovedDeviceUnused(t *testing.T) {
	for _, first := range []string{"device", "listener"} {
		t.Run(first, func(t *testing.T) {
			p := newRemovable()
			b := newBed(t, p, bedConfig{})
			c, conn := b.dial(nil)
			c.Close()
			<-conn.Done()
			if first == "listener" {
				b.l.Close()
			}
			p.remove()
			b.waitFree(p.Device().(verbs.LiveCounter))
		})
	}
}

// The devices of a listener share its memory. When one is gone, the others get its part.
func TestDevicesShareMemory(t *testing.T) {
	const limit = 16 * rpcrdma.MinMemoryLimit
	p := newRemovable()
	b := newBed(t, p, bedConfig{memory: limit})
	for range 2 {
		b.dial(nil)
		if got := b.l.Memory().Limit; got != limit {
			t.Errorf("limit %d, want %d", got, limit)
		}
		p.next()
	}
	c, conn := b.dial(nil)
	live := p.Device().(verbs.LiveCounter)
	before := live.Live().PDs
	p.remove()
	c.Close()
	<-conn.Done()
	for live.Live().PDs > before-2 && b.ctx.Err() == nil { // those of the client and of the listener
		runtime.Gosched()
	}
	if got := b.l.Memory().Limit; got != limit {
		t.Errorf("limit %d without one device, want %d", got, limit)
	}
}

// waitFree waits until nothing is left on a device.
func (b *bed) waitFree(d verbs.LiveCounter) {
	b.t.Helper()
	for d.Live().Total() > 0 {
		if b.ctx.Err() != nil {
			b.t.Fatalf("objects left: %+v", d.Live())
		}
		runtime.Gosched()
	}
}
