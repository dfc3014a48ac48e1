// Package rdmacm defines the connection manager that every provider implements: librdmacm's
// listen, connect, accept, reject, disconnect and their events, with contexts for timeouts.
//
// Active side: Resolve, create PD, CQs and QP, post Receives, Connect. Passive side:
// Listen, GetRequest, create the QP, post Receives, Accept. Either side: Disconnect or
// Close. Disconnected is closed at the end.
package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rdmad/rdmad/verbs"
)

// MaxPrivateData is the largest private data that any provider accepts, in bytes (RFC 5044
// allows 512; Linux siw has room for 252 besides the enhanced MPA header). A provider with
// a lower limit returns ErrPrivateData.
const MaxPrivateData = 252

// ConnParam is what the two sides send each other when connecting (struct rdma_conn_param).
type ConnParam struct {
	// PrivateData belongs to the consumer. The receiver must not change it.
	PrivateData []byte
	// ResponderResources is how many RDMA Reads the sender of the parameters accepts at
	// once (IRD). InitiatorDepth is how many it will issue at once (ORD). ID.Negotiated
	// returns the negotiated values.
	ResponderResources int
	InitiatorDepth     int
}

// Provider makes connections on one kind of device.
type Provider interface {
	// Name is softiwarp, rdmacore or loopback.
	Name() string
	// Device returns the device for connections if the address does not decide it.
	// ID.Device returns the device of a connection.
	Device() verbs.Device
	// Descriptors returns the number of file descriptors that a connection with one
	// completion queue needs.
	Descriptors() int
	// Listen binds to host:port. Port 0 selects a free port.
	Listen(ctx context.Context, address string) (Listener, error)
	// Resolve makes an identifier for a connection to host:port and finds its device
	// (rdma_resolve_addr, rdma_resolve_route).
	Resolve(ctx context.Context, address string) (ID, error)
	// Close frees the device. It fails with verbs.ErrBusy while listeners or connections
	// exist.
	Close() error
}

// Listener yields connection requests.
type Listener interface {
	// GetRequest waits for the next connection request (rdma_get_request). A request must
	// be accepted, rejected or closed. Peers that fail before their request is complete are
	// dropped. It returns verbs.ErrClosed after Close. A request that arrives after ctx has
	// ended stays for other callers.
	GetRequest(ctx context.Context) (ID, error)
	Addr() netip.AddrPort
	// Close stops listening and drops requests not yet returned by GetRequest. Accepted
	// connections continue.
	Close() error
}

// Monitored is an optional interface of a Listener whose address, port or device can fail.
type Monitored interface {
	// Health returns an error while no requests can arrive, with a short reason. The
	// listener tries to recover itself. changed is closed when the result changes.
	Health() (changed <-chan struct{}, reason error)
}

// OnTCP is an optional interface of a Listener that accepts on a TCP socket. Provider.Listen
// then takes over addresses of such sockets, see tcpaddr.Yield.
type OnTCP interface {
	Socket() net.Listener
}

// ID is one connection, being made or up (struct rdma_cm_id).
type ID interface {
	Device() verbs.Device
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// CreateQP makes the connection's queue pair, once per ID.
	CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error)

	// Peer returns what the other side sent: on the passive side at once, on the active
	// side after Connect.
	Peer() ConnParam
	// Negotiated returns the negotiated IRD and ORD once connected.
	Negotiated() (ird, ord int)

	// Connect connects to the peer (active side) and returns nil when the connection is up.
	// It returns *RejectedError if the peer rejected it, ErrUnreachable if there is no
	// listener, and ctx.Err() on a timeout.
	Connect(ctx context.Context, p ConnParam) error
	// Accept accepts the request (passive side). The QP must exist. The connection is up
	// when it returns nil.
	Accept(ctx context.Context, p ConnParam) error
	// Reject rejects the request (passive side) and ends it.
	Reject(ctx context.Context, privateData []byte) error

	// Disconnect ends the connection in order. Earlier requests are sent first, if the peer
	// takes them in time. Then the QP goes into verbs.QPErr and the rest is flushed.
	// Disconnect does not wait.
	Disconnect() error
	// Disconnected is closed when a connection that was up has ended, by either side or by
	// an error. QP.Err returns why.
	Disconnected() <-chan struct{}

	// Close ends the connection if necessary, destroys the QP and frees the identifier.
	Close() error
}

// Errors that Connect and other calls return, wrapped.
var (
	// ErrUnreachable means that there is no listener at the address, or no route to it.
	ErrUnreachable = errors.New("unreachable")
	// ErrPrivateData means that the private data is too long for this provider.
	ErrPrivateData = errors.New("private data too long")
)

// RejectedError means that the peer rejected the connection (RDMA_CM_EVENT_REJECTED).
type RejectedError struct {
	PrivateData []byte // the private data of the rejection
}

// Reason returns the private data if it is text that can be printed, as rdmad's is, else "".
func (e *RejectedError) Reason() string {
	text := string(bytes.TrimRight(e.PrivateData, "\x00")) // InfiniBand pads it
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return text
}

func (e *RejectedError) Error() string {
	if reason := e.Reason(); reason != "" {
		return "connection rejected by peer: " + reason
	}
	return fmt.Sprintf("connection rejected by peer (%d bytes of private data)", len(e.PrivateData))
}
