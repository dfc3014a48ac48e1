package softiwarp

import (
	"context"
	"fmt"
	"net"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

// Handshake describes a listener's answer to an MPA request (RFC 5044 §7.1.1,
// RFC 6581).
type Handshake struct {
	Revision int
	// Rejected: the listener's consumer refused the connection.
	Rejected bool
	// CRC: CRC32C is used, because one side asks for it.
	CRC bool
	// RTR names the first message of the initiator that frees the responder to
	// send: "write", "read", "send", or "" for none.
	RTR string
	// Responder and Initiator are the RDMA Reads that the listener takes and
	// makes at once; 0 with revision 1, which does not negotiate them.
	Responder, Initiator int
	// PrivateData is the consumer's, not RFC 6581's.
	PrivateData []byte
}

// Probe makes the active side's half of the MPA exchange on conn and returns
// the answer. It posts nothing, and leaves conn to the caller, who closes it.
// ctx and Config.HandshakeTimeout bound it.
func (p *Provider) Probe(ctx context.Context, conn *net.TCPConn, param rdmacm.ConnParam) (*Handshake, error) {
	param, err := p.dev.CheckParam(param, rdmacm.MaxPrivateData)
	if err != nil {
		return nil, err
	}
	stop := boundBy(ctx, conn, p.config.HandshakeTimeout)
	h, err := p.probe(conn, &param)
	if ended := stop(); ended != nil {
		return nil, ended
	}
	return h, err
}

func (p *Provider) probe(conn *net.TCPConn, param *rdmacm.ConnParam) (*Handshake, error) {
	req := p.requestFrame(param)
	if err := writeFrame(conn, req); err != nil {
		return nil, err
	}
	reply, err := readFrame(conn, mpa.Reply)
	if err != nil {
		return nil, err
	}
	h := &Handshake{Revision: int(reply.Revision), Rejected: reply.Reject, CRC: req.CRC || reply.CRC, PrivateData: reply.PrivateData}
	if reply.Reject {
		return h, nil
	}
	_, rtr, err := agree(req, &reply, param)
	if err != nil {
		return nil, fmt.Errorf("MPA: %w", err)
	}
	h.RTR = map[mpa.RTR]string{mpa.RTRWrite: "write", mpa.RTRRead: "read", mpa.RTRSend: "send"}[rtr]
	h.Responder, h.Initiator = int(reply.EnhancedData.IRD), int(reply.EnhancedData.ORD)
	return h, nil
}
