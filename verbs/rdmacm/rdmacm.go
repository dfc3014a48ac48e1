// Package rdmacm is the connection manager that every provider offers:
// librdmacm's listen, connect, accept, reject, disconnect and their events,
// with contexts for timeouts.
//
// Active side: Resolve, create PD, CQs and QP, post Receives, Connect.
// Passive side: Listen, GetRequest, create the QP, post Receives, Accept.
// Either side: Disconnect or Close; Disconnected tells the end.
package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rdmad/rdmad/verbs"
)

// MaxPrivateData is the most private data that any provider takes, in bytes
// (RFC 5044 allows 512; Linux siw has room for 252 beside the enhanced MPA
// header). A provider may allow less and says so with ErrPrivateData.
const MaxPrivateData = 252

// ConnParam is what the two sides tell each other when connecting (struct
// rdma_conn_param).
type ConnParam struct {
	// PrivateData is the consumer's; read-only for the receiver.
	PrivateData []byte
	// ResponderResources is the number of RDMA Reads the sender of the
	// parameters accepts at once (IRD); InitiatorDepth the number it will
	// issue at once (ORD). What both sides end up with is negotiated down;
	// ID.Negotiated tells it.
	ResponderResources int
	InitiatorDepth     int
}

// Provider makes connections on one kind of device.
type Provider interface {
	// Name is softiwarp, rdmacore or loopback.
	Name() string
	// Device is the device connections are made on when the address does
	// not decide it; ID.Device tells for a connection.
	Device() verbs.Device
	// Listen binds to host:port (port 0 picks one).
	Listen(ctx context.Context, address string) (Listener, error)
	// Resolve makes an identifier for a connection to host:port, with its
	// device known (rdma_resolve_addr, rdma_resolve_route).
	Resolve(ctx context.Context, address string) (ID, error)
	// Close frees the device. It fails with verbs.ErrBusy while listeners
	// or connections exist.
	Close() error
}

// Listener yields connection requests.
type Listener interface {
	// GetRequest waits for the next connection request (rdma_get_request).
	// A request must be answered with Accept or Reject, or closed. Peers
	// that fail before a whole request came are dropped without being seen
	// here. It returns verbs.ErrClosed after Close.
	GetRequest(ctx context.Context) (ID, error)
	Addr() netip.AddrPort
	// Close stops listening and drops requests not yet fetched; accepted
	// connections live on.
	Close() error
}

// Monitored is an optional interface of a Listener whose address, port or device
// can fail under it.
type Monitored interface {
	// Health fails while no requests can arrive, and says why in a few words.
	// The listener tries to mend that itself. changed is closed when the
	// answer is another.
	Health() (changed <-chan struct{}, reason error)
}

// ID is one connection, being made or up (struct rdma_cm_id).
type ID interface {
	Device() verbs.Device
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// CreateQP makes the connection's queue pair; once per ID.
	CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error)

	// Peer is what the other side sent: on the passive side from the start,
	// on the active side after Connect.
	Peer() ConnParam
	// Negotiated is the IRD and ORD in force once connected.
	Negotiated() (ird, ord int)

	// Connect asks the peer (active side) and returns nil when the
	// connection is up; *RejectedError when the peer said no;
	// ErrUnreachable when nobody listens; ctx.Err() on a timeout.
	Connect(ctx context.Context, p ConnParam) error
	// Accept says yes (passive side); the QP must exist. The connection is
	// up when it returns nil.
	Accept(ctx context.Context, p ConnParam) error
	// Reject says no (passive side) and ends the request.
	Reject(ctx context.Context, privateData []byte) error

	// Disconnect ends the connection in order: what was posted before is
	// sent first, as far as the peer takes it in time; then the QP goes into
	// verbs.QPErr and the rest is flushed. It does not wait.
	Disconnect() error
	// Disconnected is closed when a connection that was up has ended, by
	// either side or by an error; QP.Err tells why.
	Disconnected() <-chan struct{}

	// Close ends the connection if need be, destroys the QP and frees the
	// identifier.
	Close() error
}

// Errors that Connect and its kin wrap.
var (
	// ErrUnreachable means no listener at the address, or no route to it.
	ErrUnreachable = errors.New("unreachable")
	// ErrPrivateData means more private data than this provider can carry.
	ErrPrivateData = errors.New("private data too long")
)

// RejectedError is the peer's no (RDMA_CM_EVENT_REJECTED).
type RejectedError struct {
	PrivateData []byte // what the peer said with it
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("connection rejected by peer (%d bytes of private data)", len(e.PrivateData))
}
