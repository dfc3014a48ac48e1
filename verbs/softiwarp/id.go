package softiwarp

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
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
	remote       netip.AddrPort
	disconnected chan struct{}

	mu       sync.Mutex
	state    idState
	busy     sync.WaitGroup     // the call behind idConnecting
	cancel   context.CancelFunc // ends it
	conn     *net.TCPConn       // passive side, until answered
	request  mpa.Frame          // passive side
	local    netip.AddrPort
	peer     rdmacm.ConnParam
	ird, ord int
	qp       *queuePair
}

var _ rdmacm.ID = (*connID)(nil)

func newID(p *Provider, remote netip.AddrPort) *connID {
	return &connID{p: p, remote: remote, disconnected: make(chan struct{})}
}

func newRequestID(p *Provider, conn *net.TCPConn, request mpa.Frame) *connID {
	id := newID(p, addrPort(conn.RemoteAddr()))
	id.local = addrPort(conn.LocalAddr())
	request.PrivateData = bytes.Clone(request.PrivateData) // it was read where the longest fits
	id.conn, id.request, id.state = conn, request, idRequested
	id.peer = peerParam(&request)
	return id
}

func (id *connID) Device() verbs.Device { return id.p.dev }

func (id *connID) RemoteAddr() netip.AddrPort { return id.remote }

func (id *connID) LocalAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.local
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

func (id *connID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	own, ok := pd.(*protectionDomain)
	if !ok || own.dev != id.p.dev {
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
	qp, err := own.newQP(attr, id.disconnected)
	if err != nil {
		return nil, err
	}
	id.qp = qp
	return qp, nil
}

func (id *connID) Disconnect() error {
	id.mu.Lock()
	state, qp := id.state, id.qp
	id.mu.Unlock()
	if state != idConnected {
		return verbs.ErrQPState
	}
	return qp.disconnect()
}

// Close ends whatever is going on. A request not answered is rejected.
func (id *connID) Close() error {
	id.mu.Lock()
	state := id.state
	if state == idClosed {
		id.mu.Unlock()
		return nil
	}
	id.state = idClosed
	conn := id.conn
	id.conn = nil
	if id.cancel != nil {
		id.cancel()
	}
	id.mu.Unlock()
	id.busy.Wait()
	if conn != nil && state == idRequested {
		id.p.refuse(conn, rejection(&id.request, nil))
	}
	if id.qp != nil {
		if err := id.qp.Close(); err != nil {
			return err
		}
	}
	id.p.unuse()
	return nil
}

// begin starts a call that changes the state from want; done must follow.
// The context ends with the identifier.
func (id *connID) begin(ctx context.Context, want idState) (context.Context, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.state == idClosed:
		return nil, verbs.ErrClosed
	case id.state != want:
		return nil, verbs.ErrQPState
	}
	id.state = idConnecting
	id.busy.Add(1)
	ctx, id.cancel = context.WithCancel(ctx)
	return ctx, nil
}

// done ends the call that begin started. A queue pair without a connection
// has no future.
func (id *connID) done(next idState) {
	id.mu.Lock()
	defer id.mu.Unlock()
	defer id.busy.Done()
	id.cancel()
	id.cancel = nil
	if id.state != idClosed {
		id.state = next
	}
	if next == idFailed && id.qp != nil {
		id.qp.fail(errNoConnection, nil)
	}
}
