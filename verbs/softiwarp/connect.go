package softiwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// Connect implements rdmacm.ID.
func (id *connID) Connect(ctx context.Context, c rdmacm.ConnParam) error {
	c, err := id.p.dev.CheckParam(c, rdmacm.MaxPrivateData)
	if err != nil {
		return err
	}
	return id.Call(ctx, driver.IDResolved, driver.IDConnected, func(ctx context.Context) error {
		return id.connectError(id.connect(ctx, &c))
	})
}

// connectError returns err in the terms of the rdmacm contract.
func (id *connID) connectError(err error) error {
	var rejected *rdmacm.RejectedError
	switch {
	case err == nil, errors.As(err, &rejected):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		err = fmt.Errorf("%w: %w", rdmacm.ErrUnreachable, err)
	}
	return fmt.Errorf("softiwarp: connecting to %s: %w", id.RemoteAddr(), err)
}

func (id *connID) connect(ctx context.Context, c *rdmacm.ConnParam) error {
	var dialer net.Dialer
	tcp, err := dialer.DialContext(ctx, "tcp", id.RemoteAddr().String())
	if err != nil {
		return err
	}
	conn := tcp.(*net.TCPConn)
	if err := id.exchange(ctx, conn, c); err != nil {
		_ = conn.Close()
		return err
	}
	return nil
}

// exchange makes the active side's half of the MPA exchange and starts the queue pair.
func (id *connID) exchange(ctx context.Context, conn *net.TCPConn, c *rdmacm.ConnParam) error {
	stop := boundBy(ctx, conn, id.p.config.HandshakeTimeout)
	l, err := id.handshake(conn, c)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if !id.QP().establish(l) {
		return verbs.ErrQPState
	}
	return nil
}

func (id *connID) handshake(conn *net.TCPConn, c *rdmacm.ConnParam) (link, error) {
	req := id.p.requestFrame(c)
	if err := writeFrame(conn, req); err != nil {
		return link{}, err
	}
	reply, err := readFrame(conn, mpa.Reply)
	if err != nil {
		return link{}, err
	}
	l, rtr, err := agree(req, &reply, c)
	if err != nil {
		return link{}, sayWhy(conn, reply.CRC || req.CRC, err)
	}
	l.conn = conn
	id.SetAddrs(tcpaddr.Of(conn.LocalAddr()), id.RemoteAddr())
	id.SetPeer(peerParam(&reply))
	id.SetNegotiated(l.ird, l.ord)
	return l, announce(conn, &l, rtr)
}

// agree computes the connection's properties from request and reply. It also returns
// the RTR indication to send first, or 0 for none.
func agree(req, reply *mpa.Frame, c *rdmacm.ConnParam) (link, mpa.RTR, error) {
	switch {
	case reply.Reject:
		return link{}, 0, &rdmacm.RejectedError{PrivateData: reply.PrivateData}
	case reply.Markers:
		return link{}, 0, errMarkers
	case req.Enhanced && reply.Revision == mpa.Revision2 && !reply.Enhanced, reply.Revision > req.Revision:
		return link{}, 0, errEnhanced
	}
	l := link{crc: req.CRC || reply.CRC, ird: c.ResponderResources, ord: c.InitiatorDepth}
	if !reply.Enhanced {
		return l, 0, nil
	}
	if ord := int(reply.EnhancedData.ORD); ord > max(l.ird, 1) && ord != mpa.MaxDepth { // which is no limit
		return link{}, 0, errIRD
	}
	l.ird = min(l.ird, int(reply.EnhancedData.ORD))
	l.ord = min(l.ord, int(reply.EnhancedData.IRD))
	if !req.EnhancedData.PeerToPeer || !reply.EnhancedData.PeerToPeer {
		return l, 0, nil
	}
	if reply.EnhancedData.RTR&req.EnhancedData.RTR == 0 {
		return link{}, 0, errNoRTR
	}
	rtr := (reply.EnhancedData.RTR & req.EnhancedData.RTR).Choose()
	l.rtrRead, l.rtrSend = rtr == mpa.RTRRead, rtr == mpa.RTRSend
	return l, rtr, nil
}

// sayWhy sends the Terminate that RFC 6581 defines for a failed negotiation, if err is
// one. It returns err.
func sayWhy(conn *net.TCPConn, crc bool, err error) error {
	var fault rdmap.Fault
	switch {
	case errors.Is(err, errIRD):
		fault = rdmap.MPAInsufficientIRD
	case errors.Is(err, errNoRTR):
		fault = rdmap.MPANoMatchingRTR
	default:
		return err
	}
	_, _ = conn.Write(appendTerminate(nil, &rdmap.Term{Fault: fault}, crc))
	return err
}

// announce sends the RTR indication: an empty message, the first FPDU of the
// connection. The passive side may send after it.
func announce(conn *net.TCPConn, l *link, rtr mpa.RTR) error {
	var ulpdu []byte
	switch rtr {
	case mpa.RTRWrite:
		h := ddp.Header{Tagged: true, Last: true, ULP: rdmap.Control(rdmap.Write)}
		ulpdu = h.Append(nil)
	case mpa.RTRSend:
		h := ddp.Header{Last: true, ULP: rdmap.Control(rdmap.Send), QN: ddp.QueueSend, MSN: 1}
		ulpdu = h.Append(nil)
	case mpa.RTRRead:
		h := ddp.Header{Last: true, ULP: rdmap.Control(rdmap.ReadRequest), QN: ddp.QueueReadRequest, MSN: 1}
		var r rdmap.Read
		ulpdu = r.Append(h.Append(nil))
	default:
		return nil
	}
	_, err := conn.Write(mpa.AppendFPDU(nil, ulpdu, l.crc))
	return err
}

// boundBy limits reads and writes of conn by ctx, and by timeout when ctx has no
// deadline. The returned function removes the limit. It returns ctx's error if ctx has
// ended.
func boundBy(ctx context.Context, conn *net.TCPConn, timeout time.Duration) (stop func() error) {
	if _, ok := ctx.Deadline(); !ok {
		_ = conn.SetDeadline(time.Now().Add(timeout))
	}
	release := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
	return func() error {
		if !release() {
			return ctx.Err()
		}
		return conn.SetDeadline(time.Time{})
	}
}
