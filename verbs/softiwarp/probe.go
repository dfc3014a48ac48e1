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
	// Rejected means that the listener's consumer refused the connection.
	Rejected bool
	// CRC means that CRC32C is used, because at least one side asks for it.
	CRC bool
	// RTR is the initiator's first message, after which the responder may send:
	// "write", "read", "send", or "" for none.
	RTR string
	// Responder and Initiator are the most RDMA Reads at one time that the listener
	// serves and issues. They are 0 with revision 1, which does not negotiate them.
	Responder, Initiator int
	// PrivateData is the consumer's, without RFC 6581's enhanced data.
	PrivateData []byte
}

// Probe makes the active side's half of the MPA exchange on conn and returns the answer. It
// posts nothing, but sends the RTR indication: Linux's iw_cm (6.12) ends in a BUG if a peer
// closes between the reply and the indication. The caller must close conn. ctx and
// Config.HandshakeTimeout bound the time.
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
	l, rtr, err := agree(req, &reply, param)
	if err != nil {
		return nil, fmt.Errorf("MPA: %w", err)
	}
	if err := announce(conn, &l, rtr); err != nil {
		return nil, err
	}
	h.RTR = map[mpa.RTR]string{mpa.RTRWrite: "write", mpa.RTRRead: "read", mpa.RTRSend: "send"}[rtr]
	h.Responder, h.Initiator = int(reply.EnhancedData.IRD), int(reply.EnhancedData.ORD)
	return h, nil
}
