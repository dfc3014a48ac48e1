//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// event is one of the connection manager.
type event struct {
	kind      C.enum_rdma_cm_event_type
	device    *openContext // of DEVICE_REMOVAL; nil when it is not in use
	status    int
	responder int // RDMA Reads that the receiver of the event is asked to accept
	initiator int // and may issue
	data      []byte
}

func (e *event) String() string { return C.GoString(C.rdma_event_str(e.kind)) }

// err is what an event that is not the one hoped for means.
func (e *event) err() error {
	switch e.kind {
	case C.RDMA_CM_EVENT_REJECTED:
		if e.status == rejectNoListener {
			return rdmacm.ErrUnreachable
		}
		rejected := &rdmacm.RejectedError{PrivateData: e.data}
		if e.status > 0 && e.status != rejectConsumer { // on iWARP an errno, negative
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

// removed passes on that the device of a DEVICE_REMOVAL is gone.
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

// watch takes events until the provider is closed.
func (p *Provider) watch() {
	c := new(C.struct_rdmad_event)
	for {
		var rc C.int
		err := p.events.wait(func(uintptr) bool {
			// A request that comes by a new device opens it.
			atHome(func() { rc = C.rdmad_next_event(p.channel, c) })
			return rc != C.EAGAIN
		})
		switch {
		case err != nil:
			return
		case rc == 0:
			p.dispatch(c)
		default: // of memory or files there may be more in a moment
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
		data: C.GoBytes(cPointer(&c.private_data[0]), C.int(c.private_len)),
	}
	if e.kind == C.RDMA_CM_EVENT_DEVICE_REMOVAL {
		e.device = contextOf(uintptr(c.device))
	}
	switch of := handles.get(uint64(c.handle)).(type) {
	case *listener:
		of.event(idOf(c), &e)
	case *connID:
		of.event(&e)
	default:
		if e.kind == C.RDMA_CM_EVENT_CONNECT_REQUEST { // of a listener that was just closed
			command(func() C.int { return C.rdmad_reject(idOf(c), nil, 0) })
			command(func() C.int { return C.rdmad_destroy_id(idOf(c)) })
		}
	}
}

// event takes what the connection manager says about an identifier.
func (id *connID) event(e *event) {
	switch e.kind {
	case C.RDMA_CM_EVENT_ESTABLISHED:
		if qp := id.QP(); qp != nil {
			qp.establish()
		}
	case C.RDMA_CM_EVENT_DISCONNECTED:
		if qp := id.QP(); qp != nil {
			qp.peerEnded()
		}
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		if qp := id.QP(); qp != nil {
			qp.fail(errRemoved)
		}
		e.removed()
	case C.RDMA_CM_EVENT_ADDR_CHANGE:
		if qp := id.QP(); qp != nil {
			qp.fail(errMoved)
		}
	case C.RDMA_CM_EVENT_UNREACHABLE: // of a connection that is up: the peer has other hardware, or none
		if qp := id.QP(); qp != nil {
			qp.probe()
		}
	case C.RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return
	}
	select {
	case id.steps <- *e:
	default: // nobody waits for it
	}
}

// portChanged reports a port that went down or came up. Connections are left
// to their timeouts: a cable that is back in time has hurt nobody. But a peer may
// have given up meanwhile, and not have been able to tell.
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

// queuePairs are those of any provider that are wanted.
func queuePairs(wanted func(*queuePair) bool) (all []*queuePair) {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	for _, v := range handles.entries {
		if q, ok := v.(*queuePair); ok && wanted(q) {
			all = append(all, q)
		}
	}
	return all
}
