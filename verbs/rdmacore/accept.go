//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// newRequest makes the identifier of a connection request.
func newRequest(p *Provider, c *C.struct_rdma_cm_id, e *event) (*connID, error) {
	dev, err := p.device(c)
	if err != nil {
		return nil, err
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	id := newID(p)
	id.c, id.dev, id.state = c, dev, idRequested
	id.local, id.remote = localAddress(c), peerAddress(c)
	id.peer = rdmacm.ConnParam{PrivateData: e.data, ResponderResources: e.initiator, InitiatorDepth: e.responder}
	C.rdmad_set_handle(c, C.uint64_t(id.handle))
	return id, nil
}

// Accept implements rdmacm.ID.
func (id *connID) Accept(ctx context.Context, p rdmacm.ConnParam) error {
	c, err := id.param(&p, id.dev.fits(replyData))
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := id.begin(idRequested); err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTimeout)
		defer cancel()
	}
	if err := id.accept(ctx, &p, c); err != nil {
		id.done(idFailed)
		if errors.Is(err, ctx.Err()) {
			return ctx.Err()
		}
		return fmt.Errorf("rdmacore: accepting %s: %w", id.RemoteAddr(), err)
	}
	id.done(idConnected)
	return nil
}

func (id *connID) accept(ctx context.Context, own *rdmacm.ConnParam, c *C.struct_rdmad_param) error {
	id.mu.Lock()
	qp := id.qp
	id.ird = min(own.ResponderResources, id.peer.InitiatorDepth)
	id.ord = min(own.InitiatorDepth, id.peer.ResponderResources)
	c.responder_resources, c.initiator_depth = C.uint8_t(id.ird), C.uint8_t(id.ord)
	id.mu.Unlock()
	c.qp_num = qp.deviceNum
	if !id.dev.iwarp() {
		if err := qp.ready(c); err != nil {
			return err
		}
	}
	if rc := command(func() C.int { return C.rdmad_accept(id.c, c) }); rc != 0 {
		return failed("accept", rc)
	}
	if _, err := id.await(ctx, C.RDMA_CM_EVENT_ESTABLISHED, C.RDMA_CM_EVENT_ESTABLISHED); err != nil {
		return err
	}
	return nil
}

// Reject implements rdmacm.ID.
func (id *connID) Reject(ctx context.Context, privateData []byte) error {
	if most := id.dev.fits(rejectData); len(privateData) > most {
		return fmt.Errorf("rdmacore: %d bytes of private data, %d fit: %w", len(privateData), most, rdmacm.ErrPrivateData)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	switch id.state {
	case idClosed:
		return verbs.ErrClosed
	case idRequested:
	default:
		return verbs.ErrQPState
	}
	id.state = idFailed
	var data [256]C.uint8_t
	for i, b := range privateData {
		data[i] = C.uint8_t(b)
	}
	if rc := command(func() C.int { return C.rdmad_reject(id.c, &data[0], C.uint8_t(len(privateData))) }); rc != 0 {
		return failed("reject", rc)
	}
	return nil
}
