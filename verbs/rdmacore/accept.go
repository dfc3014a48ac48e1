//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"

	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// newRequest makes the identifier of a connection request, whose further events go to the
// provider's channel.
func newRequest(p *Provider, c *C.struct_rdma_cm_id, e *event) (*connID, error) {
	dev, err := p.device(c)
	if err != nil {
		return nil, err
	}
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	id := newID(p)
	id.c, id.dev = c, dev
	id.SetAddrs(localAddress(c), peerAddress(c))
	id.Requested(rdmacm.ConnParam{PrivateData: e.data, ResponderResources: e.initiator, InitiatorDepth: e.responder})
	C.rdmad_set_handle(c, C.uint64_t(id.handle)) // the provider's channel may have events as soon as it has the identifier
	if rc := command(func() C.int { return C.rdmad_migrate_id(c, p.channel.c) }); rc != 0 {
		handles.remove(id.handle)
		p.users.Unuse()
		return nil, failed("migrate identifier", rc)
	}
	return id, nil
}

// Accept implements rdmacm.ID.
func (id *connID) Accept(ctx context.Context, p rdmacm.ConnParam) error {
	c, err := id.param(&p, id.dev.fits(replyData))
	if err != nil {
		return err
	}
	return id.Call(ctx, driver.IDRequested, driver.IDConnected, func(ctx context.Context) error {
		ctx, cancel := answerTime(ctx)
		defer cancel()
		if err := id.accept(ctx, &p, c); err != nil {
			return fmt.Errorf("rdmacore: accepting %s: %w", id.RemoteAddr(), err)
		}
		return nil
	})
}

func (id *connID) accept(ctx context.Context, own *rdmacm.ConnParam, c *C.struct_rdmad_param) error {
	qp := id.QP()
	ird, ord := driver.Negotiate(*own, id.Peer())
	id.SetNegotiated(ird, ord)
	c.responder_resources, c.initiator_depth = C.uint8_t(ird), C.uint8_t(ord)
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
	c, err := id.param(&rdmacm.ConnParam{PrivateData: privateData}, id.dev.fits(rejectData))
	if err != nil {
		return err
	}
	return id.Call(ctx, driver.IDRequested, driver.IDFailed, func(context.Context) error {
		return failed("reject", command(func() C.int { return C.rdmad_reject(id.c, &c.private_data[0], c.private_len) }))
	})
}
