package softiwarp

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// connID is a connection identifier.
type connID struct {
	driver.ID[*queuePair]
	p *Provider
	// conn and request belong to the passive side. The identifier owns conn until the
	// request is answered; after that the call that answers owns it.
	conn    *net.TCPConn
	request mpa.Frame
}

var _ rdmacm.ID = (*connID)(nil)

func newID(p *Provider, local, remote netip.AddrPort) *connID {
	id := &connID{p: p}
	id.Init(local, remote)
	return id
}

func newRequestID(p *Provider, conn *net.TCPConn, request mpa.Frame) *connID {
	id := newID(p, tcpaddr.Of(conn.LocalAddr()), tcpaddr.Of(conn.RemoteAddr()))
	request.PrivateData = bytes.Clone(request.PrivateData) // the original is a slice of a much larger buffer
	id.conn, id.request = conn, request
	id.Requested(peerParam(&request))
	return id
}

// Device implements rdmacm.ID.
func (id *connID) Device() verbs.Device { return id.p.dev }

// CreateQP implements rdmacm.ID.
func (id *connID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	own, err := id.p.dev.Own(pd)
	if err != nil {
		return nil, err
	}
	return id.AddQP(func() (*queuePair, error) { return newQP(id, own, attr) })
}

// Close ends the connection or a call in progress. It rejects an unanswered request.
func (id *connID) Close() error {
	switch id.Shut() {
	case driver.IDClosed:
		return nil
	case driver.IDRequested:
		id.p.refuse(id.conn, rejection(&id.request, nil))
	}
	if qp := id.QP(); qp != nil {
		if err := qp.Close(); err != nil {
			return err
		}
	}
	id.p.users.Unuse()
	return nil
}
