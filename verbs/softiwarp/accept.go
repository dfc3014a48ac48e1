package softiwarp

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

// Accept implements rdmacm.ID. What is posted before the peer's first FPDU
// waits for it (RFC 5044 §7.1.2).
func (id *connID) Accept(ctx context.Context, c rdmacm.ConnParam) error {
	c, err := checkParam(c)
	if err != nil {
		return err
	}
	if !id.hasQP() {
		return invalid("no queue pair")
	}
	conn, call, err := id.answer(ctx)
	if err != nil {
		return err
	}
	if err := id.accept(call, conn, &c); err != nil {
		_ = conn.Close()
		id.done(idFailed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("softiwarp: accepting %s: %w", id.remote, err)
	}
	id.done(idConnected)
	return nil
}

func (id *connID) accept(ctx context.Context, conn *net.TCPConn, c *rdmacm.ConnParam) error {
	reply := id.p.replyFrame(&id.request, c)
	l := link{conn: conn, crc: reply.CRC, ird: c.ResponderResources, ord: c.InitiatorDepth, passive: true}
	if reply.Enhanced {
		l.ird, l.ord = negotiate(c, &id.request.EnhancedData)
		l.rtrSend = reply.EnhancedData.RTR == mpa.RTRSend
		if reply.EnhancedData.RTR == mpa.RTRRead {
			// The indication is a Read, whatever the consumers agreed on.
			l.ird = max(l.ird, 1)
		}
	}
	stop := boundBy(ctx, conn, id.p.config.HandshakeTimeout)
	err := writeFrame(conn, reply)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	id.mu.Lock()
	id.ird, id.ord = l.ird, l.ord
	id.mu.Unlock()
	if !id.qp.establish(l) {
		return verbs.ErrQPState
	}
	return nil
}

// Reject implements rdmacm.ID.
func (id *connID) Reject(ctx context.Context, privateData []byte) error {
	if len(privateData) > rdmacm.MaxPrivateData {
		return rdmacm.ErrPrivateData
	}
	conn, _, err := id.answer(ctx)
	if err != nil {
		return err
	}
	id.p.refuse(conn, rejection(&id.request, privateData))
	id.done(idFailed)
	return nil
}

// answer takes the connection out of an unanswered request; done must follow.
func (id *connID) answer(ctx context.Context) (*net.TCPConn, context.Context, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	call, err := id.begin(ctx, idRequested)
	if err != nil {
		return nil, nil, err
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	conn := id.conn
	id.conn = nil
	return conn, call, nil
}

// refuse sends a rejection and closes conn without losing it.
func (p *Provider) refuse(conn *net.TCPConn, f *mpa.Frame) {
	b, err := f.Append(nil)
	if err != nil {
		b = nil
	}
	p.lingers.add(conn, b, false)
}
