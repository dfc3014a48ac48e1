//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"log/slog"
	"time"
	"unsafe"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// event is an event of the connection manager.
type event struct {
	kind      C.enum_rdma_cm_event_type
	device    *openContext // for DEVICE_REMOVAL; nil when the device is not in use
	status    int
	responder int // RDMA Reads that the receiver of the event should accept
	initiator int // RDMA Reads that it may issue
	data      []byte
}

func (e *event) String() string { return C.GoString(C.rdma_event_str(e.kind)) }

// err returns the error for an event other than the expected one.
func (e *event) err() error {
	switch e.kind {
	case C.RDMA_CM_EVENT_REJECTED:
		if e.status == rejectNoListener {
			return rdmacm.ErrUnreachable
		}
		rejected := &rdmacm.RejectedError{PrivateData: e.data}
		if e.status > 0 && e.status != rejectConsumer { // on iWARP the status is a negative errno
			return fmt.Errorf("%w: by its connection manager, for reason %d", rejected, e.status)
		}
		return rejected
	case C.RDMA_CM_EVENT_ADDR_ERROR, C.RDMA_CM_EVENT_ROUTE_ERROR, C.RDMA_CM_EVENT_UNREACHABLE:
		return fmt.Errorf("%w: %v, status %d", rdmacm.ErrUnreachable, e, e.status)
	case C.RDMA_CM_EVENT_DISCONNECTED:
		return verbs.ErrDisconnected
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		return errRemoved
	}
	return fmt.Errorf("%v, status %d", e, e.status)
}

// removed marks the device of a DEVICE_REMOVAL as gone.
func (e *event) removed() {
	if e.device != nil {
		e.device.remove()
	}
}

// Reasons of InfiniBand's REJ message (InfiniBand specification 12.6.7.2):
// "invalid service ID" and "consumer defined".
const (
	rejectNoListener = 8
	rejectConsumer   = 28
)

// watch processes the events of a channel until its descriptor is closed. It calls await
// before each.
func (p *Provider) watch(ch *channel, await func()) {
	c := new(C.struct_rdmad_event)
	for {
		await()
		var rc C.int
		err := ch.events.wait(func(uintptr) bool {
			// A request through a new device opens that device.
			atHome(func() { rc = C.rdmad_next_event(ch.c, c) })
			return rc != C.EAGAIN
		})
		switch {
		case err != nil:
			return
		case rc == 0:
			p.dispatch(c)
		default: // out of memory or files: more may be available soon
			p.config.Logger.Error("rdmacore: event lost", "error", failed("connection manager", rc))
			select {
			case <-p.closing:
				return
			case <-time.After(lookTime):
			}
		}
	}
}

func (p *Provider) dispatch(c *C.struct_rdmad_event) {
	e := event{
		kind: C.enum_rdma_cm_event_type(c.kind), status: int(c.status),
		responder: int(c.responder_resources), initiator: int(c.initiator_depth),
		data: C.GoBytes(unsafe.Pointer(&c.private_data[0]), C.int(c.private_len)),
	}
	if e.kind == C.RDMA_CM_EVENT_DEVICE_REMOVAL {
		e.device = contextOf(uintptr(c.device))
	}
	switch of := handles.get(uint64(c.handle)).(type) {
	case *listener:
		of.event(idOf(c), &e)
	case *connID:
		of.event(&e)
	}
}

// event processes an event of the identifier.
func (id *connID) event(e *event) {
	if qp := id.QP(); qp != nil {
		switch e.kind {
		case C.RDMA_CM_EVENT_ESTABLISHED:
			qp.establish()
		case C.RDMA_CM_EVENT_DISCONNECTED:
			qp.peerEnded()
		case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
			qp.fail(errRemoved)
		case C.RDMA_CM_EVENT_ADDR_CHANGE:
			qp.fail(errMoved)
		case C.RDMA_CM_EVENT_UNREACHABLE: // on an established connection: the peer's hardware has changed or is gone
			qp.probe()
		}
	}
	switch e.kind {
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		e.removed()
	case C.RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return
	}
	select {
	case id.steps <- *e:
	default: // nobody waits for the event
	}
}

// portChanged logs that a port went down or came up. Connections keep their timeouts, so a
// cable that is soon back does no harm. But the peer may have given up in the meantime
// without being able to report it.
func (p *Provider) portChanged(o *openContext, port int, up bool) {
	level, state := slog.LevelWarn, "down"
	if up {
		level, state = slog.LevelInfo, "up"
	}
	p.config.Logger.Log(context.Background(), level, "rdmacore: port changed", "device", o.name, "port", port, "state", state)
	p.mu.Lock()
	if d := p.devices[o.c]; d != nil && up {
		d.doubt()
	}
	p.mu.Unlock()
	p.lookAtListeners()
}
