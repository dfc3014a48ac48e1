//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// openContext is a device that librdmacm has opened. A process has one per device, and all
// its providers share it. Its goroutine reads asynchronous events while a provider uses it.
type openContext struct {
	c    *C.struct_ibv_context
	name string // its name when it was opened
	dir  os.FileInfo
	info C.struct_rdmad_device

	plug     *C.struct_ibv_cq // see plugKeys
	users    int              // guarded by contexts.mu
	released chan struct{}    // closed when the last user's release is done
	events   descriptor
	done     chan struct{}

	mu       sync.Mutex
	watchers map[*Provider]struct{}
	gone     bool
}

// contexts holds the devices in use, by C address. The holder of its lock may wait for the
// thread home. Code on home must not take the lock.
var contexts = struct {
	mu   sync.Mutex
	open map[*C.struct_ibv_context]*openContext
}{open: make(map[*C.struct_ibv_context]*openContext)}

// acquire takes a context into use for a provider. release ends the use. acquire fails for
// a device that is gone, even if the connection manager does not know that yet.
func acquire(c *C.struct_ibv_context) (*openContext, error) {
	contexts.mu.Lock()
	defer contexts.mu.Unlock()
	for contexts.open[c] != nil {
		o := contexts.open[c]
		if o.isGone() {
			return nil, errVanished
		}
		if o.users > 0 {
			o.users++
			return o, nil
		}
		contexts.mu.Unlock()
		<-o.released
		contexts.mu.Lock()
	}
	o := &openContext{c: c, users: 1, released: make(chan struct{}), done: make(chan struct{}), watchers: make(map[*Provider]struct{})}
	var err error
	atHome(func() {
		if err = hold(c); err != nil {
			return
		}
		if err = o.open(); err != nil {
			putDevices([]*C.struct_ibv_context{c})
		}
	})
	if err != nil {
		return nil, err
	}
	contexts.open[c] = o
	go o.watch()
	return o, nil
}

func (o *openContext) open() error {
	if rc := C.rdmad_query(o.c, &o.info); rc != 0 {
		return failed("query device", rc)
	}
	o.name = C.GoString(&o.info.name[0])
	var err error
	if o.dir, err = os.Stat(o.path()); err != nil {
		return errVanished
	}
	if rc := C.rdmad_nonblock(o.c.async_fd); rc != 0 {
		return failed("asynchronous events of "+o.name, rc)
	}
	if o.events, err = newDescriptor(int(o.c.async_fd), o.name+" events"); err != nil {
		return err
	}
	o.plugKeys()
	return nil
}

// plugKeys keeps later queues from getting a memory key of siw that libsiw takes to mean
// "none": 0x90000. Keys count the pages that a process has mapped, so the 145th queue would
// get it and could not be created. The first completion queue, of 1 MiB, covers that key.
func (o *openContext) plugKeys() {
	const entries = 1 << 15 // of 32 bytes
	if uint32(o.info.vendor) == vendorSIW {
		o.plug = C.ibv_create_cq(o.c, entries, nil, nil, 0)
	}
}

// release ends one use of the context. It waits for the context's events, which take locks
// of the providers, so the caller must hold none.
func (o *openContext) release() {
	contexts.mu.Lock()
	o.users--
	last := o.users == 0
	contexts.mu.Unlock()
	if !last {
		return
	}
	o.events.close()
	<-o.done
	contexts.mu.Lock()
	gone := o.isGone()
	atHome(func() {
		if o.plug != nil {
			C.ibv_destroy_cq(o.plug)
		}
		if gone {
			C.rdmad_abandon(o.c)
		}
		putDevices([]*C.struct_ibv_context{o.c})
		if gone {
			_, _ = listDevices() // librdmacm now forgets the device, unless it is the only one; this also opens new devices
		}
	})
	delete(contexts.open, o.c)
	contexts.mu.Unlock()
	close(o.released)
}

func (o *openContext) isGone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone
}

// remove records that the device is gone and, once, notifies the providers that use it.
func (o *openContext) remove() {
	o.mu.Lock()
	before := o.gone
	o.gone = true
	o.mu.Unlock()
	if !before {
		o.tell(func(p *Provider) { p.deviceGone(o) })
	}
}

// contextOf returns the open context at a C address, or nil when it is not in use.
func contextOf(address uintptr) *openContext {
	contexts.mu.Lock()
	defer contexts.mu.Unlock()
	for c, o := range contexts.open {
		if cAddress(c) == address {
			return o
		}
	}
	return nil
}

// path returns the sysfs directory of the device's file.
func (o *openContext) path() string { return C.GoString(&o.c.device.dev_path[0]) }

// there reports whether the kernel still offers the device. When the kernel is about to
// remove a device, its sysfs directory is gone already, while the kernel waits for its
// users. Another device may reuse the file's number, and another the name.
func (o *openContext) there() bool {
	dir, err := os.Stat(o.path())
	return err == nil && os.SameFile(dir, o.dir)
}

// nameNow returns the device's current name. "rdma dev set" and udev rules can change it.
func (o *openContext) nameNow() string {
	name, err := os.ReadFile(filepath.Join(o.path(), "ibdev"))
	if err != nil {
		return o.name
	}
	return strings.TrimSpace(string(name))
}

// watch reads asynchronous events until the context is no longer in use.
func (o *openContext) watch() {
	defer close(o.done)
	for {
		var kind, port, rc C.int
		var handle C.uint64_t
		err := o.events.wait(func(uintptr) bool {
			rc = C.rdmad_async(o.c, &kind, &handle, &port)
			return rc != C.EAGAIN
		})
		if err != nil || rc != 0 {
			return
		}
		o.event(kind, uint64(handle), int(port))
	}
}

// event passes an asynchronous event to the object that it concerns.
func (o *openContext) event(kind C.int, handle uint64, port int) {
	switch kind {
	case C.IBV_EVENT_CQ_ERR:
		if cq, ok := handles.get(handle).(*completionQueue); ok {
			cq.overflowed()
		}
	case C.IBV_EVENT_QP_FATAL, C.IBV_EVENT_QP_REQ_ERR, C.IBV_EVENT_QP_ACCESS_ERR:
		if qp, ok := handles.get(handle).(*queuePair); ok {
			qp.fail(errOfEvent(kind))
		}
	case C.IBV_EVENT_COMM_EST:
		if qp, ok := handles.get(handle).(*queuePair); ok {
			qp.confirm()
		}
	case C.IBV_EVENT_DEVICE_FATAL:
		o.remove()
	case C.IBV_EVENT_PORT_ERR:
		o.tell(func(p *Provider) { p.portChanged(o, port, false) })
	case C.IBV_EVENT_PORT_ACTIVE:
		o.tell(func(p *Provider) { p.portChanged(o, port, true) })
	}
}

// tell calls f for each provider that uses the device.
func (o *openContext) tell(f func(*Provider)) {
	o.mu.Lock()
	all := slices.Collect(maps.Keys(o.watchers))
	o.mu.Unlock()
	for _, p := range all {
		f(p)
	}
}

func (o *openContext) subscribe(p *Provider) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watchers[p] = struct{}{}
}

func (o *openContext) unsubscribe(p *Provider) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.watchers, p)
}
