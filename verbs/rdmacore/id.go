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
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// idState is how far an identifier has come.
type idState uint8

const (
	idResolved   idState = iota // active side, not connected
	idRequested                 // passive side, not answered
	idConnecting                // Connect, Accept or Reject is at work
	idConnected
	idFailed // refused, rejected, timed out
	idClosed
)

// connID is a connection identifier.
type connID struct {
	p            *Provider
	dev          *device
	c            *C.struct_rdma_cm_id
	handle       uint64
	disconnected chan struct{}
	closing      chan struct{} // ends waits
	steps        chan event    // what is waited for; bounded by the steps there are

	mu            sync.Mutex
	state         idState
	busy          sync.WaitGroup // the call behind idConnecting
	calling       chan struct{}  // closed when rdma_connect has returned; nil before
	local, remote netip.AddrPort
	peer          rdmacm.ConnParam
	ird, ord      int
	held, left    bool // see hold, leave
	qp            *queuePair
}

var _ rdmacm.ID = (*connID)(nil)

func newID(p *Provider) *connID {
	id := &connID{p: p, disconnected: make(chan struct{}), closing: make(chan struct{}), steps: make(chan event, 8)}
	id.handle = handles.add(id)
	return id
}

func cPointer[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

func idOf(c *C.struct_rdmad_event) *C.struct_rdma_cm_id {
	return *(**C.struct_rdma_cm_id)(unsafe.Pointer(&c.id))
}

func (id *connID) Device() verbs.Device { return id.dev }

func (id *connID) LocalAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.local
}

func (id *connID) RemoteAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.remote
}

func (id *connID) Peer() rdmacm.ConnParam {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.peer
}

func (id *connID) Negotiated() (ird, ord int) {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ird, id.ord
}

func (id *connID) Disconnected() <-chan struct{} { return id.disconnected }

func (id *connID) queuePair() *queuePair {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// CreateQP implements rdmacm.ID.
func (id *connID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	own, ok := pd.(*protectionDomain)
	if !ok || own.dev != id.dev {
		return nil, invalid("protection domain of another device")
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.state == idClosed:
		return nil, verbs.ErrClosed
	case id.qp != nil:
		return nil, invalid("the identifier has a queue pair")
	case id.state == idFailed:
		return nil, verbs.ErrQPState
	}
	qp, err := id.newQP(own, attr)
	if err != nil {
		return nil, err
	}
	id.qp = qp
	return qp, nil
}

// Disconnect implements rdmacm.ID.
func (id *connID) Disconnect() error {
	id.mu.Lock()
	state, qp := id.state, id.qp
	id.mu.Unlock()
	if state != idConnected {
		return verbs.ErrQPState
	}
	return qp.disconnect()
}

// Close implements rdmacm.ID. A request not answered is rejected.
func (id *connID) Close() error {
	id.mu.Lock()
	state := id.state
	if state == idClosed {
		id.mu.Unlock()
		return nil
	}
	id.state = idClosed
	close(id.closing)
	qp, calling := id.qp, id.calling
	id.mu.Unlock()
	id.busy.Wait()
	if state == idRequested {
		command(func() C.int { return C.rdmad_reject(id.c, nil, 0) })
	}
	if qp != nil {
		if err := qp.Close(); err != nil {
			return err
		}
	}
	id.free(calling)
	return nil
}

// free gives the identifier back, later when a call of the library still uses
// it: siw connects its TCP connection within rdma_connect.
func (id *connID) free(calling <-chan struct{}) {
	select {
	case <-calling:
	default:
		if calling != nil {
			id.p.late.Go(func() {
				<-calling
				id.destroy()
			})
			id.p.unuse()
			return
		}
	}
	if !id.leave() {
		id.destroy()
	}
	id.p.unuse()
}

func (id *connID) destroy() {
	handles.remove(id.handle)
	command(func() C.int { return C.rdmad_destroy_id(id.c) })
}

// begin starts a call that changes the state from want; done must follow.
func (id *connID) begin(want idState) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.state == idClosed:
		return verbs.ErrClosed
	case id.state != want:
		return verbs.ErrQPState
	case id.qp == nil:
		return invalid("no queue pair")
	}
	if err := id.qp.Err(); err != nil {
		return err // it has ended already, as with its device
	}
	id.state = idConnecting
	id.busy.Add(1)
	return nil
}

// done ends the call that begin started. A queue pair without a connection has
// no future.
func (id *connID) done(next idState) {
	id.mu.Lock()
	if id.state != idClosed {
		id.state = next
	}
	qp := id.qp
	id.mu.Unlock()
	if next == idFailed && qp != nil {
		qp.fail(errNoConnection)
	}
	id.busy.Done()
}

// await waits for one of two events, and gives it.
func (id *connID) await(ctx context.Context, want, or C.enum_rdma_cm_event_type) (event, error) {
	select {
	case e := <-id.steps:
		if e.kind != want && e.kind != or || e.status != 0 {
			return e, e.err()
		}
		return e, nil
	case <-id.closing:
		return event{}, verbs.ErrClosed
	case <-ctx.Done():
		return event{}, ctx.Err()
	}
}
