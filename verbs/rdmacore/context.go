//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// openContext is a device that librdmacm has opened: one for a process, which
// all its providers share. Its goroutine reads asynchronous events while it is
// in use.
type openContext struct {
	c    *C.struct_ibv_context
	name string // when it was opened
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

// contexts are the devices in use, by C's address. What holds its lock may wait
// for home, where nobody takes it.
var contexts = struct {
	mu   sync.Mutex
	open map[*C.struct_ibv_context]*openContext
}{open: make(map[*C.struct_ibv_context]*openContext)}

// acquire takes a context into use for a provider; release ends it. It fails for
// a device that is gone, which the connection manager may not know yet.
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

// plugKeys keeps siw's memory keys from 0x90000 away from the queues that
// follow. Keys count pages that a process has mapped, and that one means "none"
// to libsiw: the 145th queue could not be made. A completion queue of 1 MiB, the
// first of all, spans it.
func (o *openContext) plugKeys() {
	const entries = 1 << 15 // of 32 bytes
	if uint32(o.info.vendor) == vendorSIW {
		o.plug = C.ibv_create_cq(o.c, entries, nil, nil, 0)
	}
}

// release waits for the context's events, which take locks of the providers, and
// so holds none.
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
			_, _ = listDevices() // librdmacm forgets it now, unless there is no other; it opens new ones
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

// remove notes, once, that the device is gone and tells who uses it.
func (o *openContext) remove() {
	o.mu.Lock()
	before := o.gone
	o.gone = true
	o.mu.Unlock()
	if !before {
		o.tell(func(p *Provider) { p.deviceGone(o) })
	}
}

// contextOf gives the open context at an address of C's; nil when it is not in
// use.
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

// path is where the kernel shows the device's file.
func (o *openContext) path() string { return C.GoString(&o.c.device.dev_path[0]) }

// there says whether the kernel still offers the device. One that it is about to
// remove has lost its file already, while the kernel waits for those who use it.
// Another device may have the number of the file, and another name the device.
func (o *openContext) there() bool {
	dir, err := os.Stat(o.path())
	return err == nil && os.SameFile(dir, o.dir)
}

// nameNow is the device's name, which "rdma dev set" and udev's rules change.
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

// event tells whom an event is about.
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
	all := make([]*Provider, 0, len(o.watchers))
	for p := range o.watchers {
		all = append(all, p)
	}
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
