//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"net/netip"
	"sync"
	"unsafe"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// connID is a connection identifier.
type connID struct {
	driver.ID[*queuePair]
	p      *Provider
	dev    *device
	c      *C.struct_rdma_cm_id
	handle uint64
	steps  chan event // events for the waiting call; has room for all steps

	mu         sync.Mutex
	held, left bool // see hold, leave
}

var _ rdmacm.ID = (*connID)(nil)

func newID(p *Provider) *connID {
	id := &connID{p: p, steps: make(chan event, 8)}
	id.Init(netip.AddrPort{}, netip.AddrPort{})
	id.handle = handles.add(id)
	return id
}

func idOf(c *C.struct_rdmad_event) *C.struct_rdma_cm_id {
	return *(**C.struct_rdma_cm_id)(unsafe.Pointer(&c.id))
}

func (id *connID) Device() verbs.Device { return id.dev }

// CreateQP implements rdmacm.ID.
func (id *connID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	own, ok := pd.(*protectionDomain)
	if !ok || own.dev != id.dev {
		return nil, driver.ErrForeignPD
	}
	return id.AddQP(func() (*queuePair, error) { return id.newQP(own, attr) })
}

// Close implements rdmacm.ID. It rejects an unanswered request.
func (id *connID) Close() error {
	switch id.Shut() {
	case driver.IDClosed:
		return nil
	case driver.IDRequested:
		command(func() C.int { return C.rdmad_reject(id.c, nil, 0) })
	}
	if qp := id.QP(); qp != nil {
		if err := qp.Close(); err != nil {
			return err
		}
	}
	id.free()
	return nil
}

// free destroys the identifier, now or later.
func (id *connID) free() {
	if !id.leave() {
		id.destroy()
	}
	id.p.users.Unuse()
}

func (id *connID) destroy() {
	handles.remove(id.handle)
	command(func() C.int { return C.rdmad_destroy_id(id.c) })
}

// await waits for one of two events and returns it.
func (id *connID) await(ctx context.Context, want, or C.enum_rdma_cm_event_type) (event, error) {
	select {
	case e := <-id.steps:
		if e.kind != want && e.kind != or || e.status != 0 {
			return e, e.err()
		}
		return e, nil
	case <-ctx.Done():
		return event{}, ctx.Err()
	}
}
