package softiwarp

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

// Accept implements rdmacm.ID. Requests posted before the peer's first FPDU are sent
// after that FPDU has arrived (RFC 5044 §7.1.2).
func (id *connID) Accept(ctx context.Context, c rdmacm.ConnParam) error {
	c, err := id.p.dev.CheckParam(c, rdmacm.MaxPrivateData)
	if err != nil {
		return err
	}
	return id.Call(ctx, driver.IDRequested, driver.IDConnected, func(ctx context.Context) error {
		if err := id.accept(ctx, id.conn, &c); err != nil {
			_ = id.conn.Close()
			return fmt.Errorf("softiwarp: accepting %s: %w", id.RemoteAddr(), err)
		}
		return nil
	})
}

func (id *connID) accept(ctx context.Context, conn *net.TCPConn, c *rdmacm.ConnParam) error {
	reply := id.p.replyFrame(&id.request, c)
	l := link{conn: conn, crc: reply.CRC, ird: c.ResponderResources, ord: c.InitiatorDepth, passive: true}
	if reply.Enhanced {
		l.ird, l.ord = driver.Negotiate(*c, id.Peer())
		l.rtrSend = reply.EnhancedData.RTR == mpa.RTRSend
		if reply.EnhancedData.RTR == mpa.RTRRead {
			// The RTR indication is an RDMA Read, even if the consumers agreed on none.
			l.ird = max(l.ird, 1)
		}
	}
	stop := boundBy(ctx, conn, id.p.config.HandshakeTimeout)
	err := writeFrame(conn, reply)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	id.SetNegotiated(l.ird, l.ord)
	if !id.QP().establish(l) {
		return verbs.ErrQPState
	}
	return nil
}

// Reject implements rdmacm.ID.
func (id *connID) Reject(ctx context.Context, privateData []byte) error {
	if _, err := id.p.dev.CheckParam(rdmacm.ConnParam{PrivateData: privateData}, rdmacm.MaxPrivateData); err != nil {
		return err
	}
	return id.Call(ctx, driver.IDRequested, driver.IDFailed, func(context.Context) error {
		id.p.refuse(id.conn, rejection(&id.request, privateData))
		return nil
	})
}

// refuse sends a rejection and closes conn so that the rejection reaches the peer.
func (p *Provider) refuse(conn *net.TCPConn, f *mpa.Frame) {
	b, err := f.Append(nil)
	if err != nil {
		b = nil
	}
	p.lingers.add(conn, leftover{}, b, false)
}
