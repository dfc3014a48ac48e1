// Package perconn is the interface between the data plane and a service that keeps state for
// each connection: an upstream connection, a way to call the client.
//
// A service's duties:
//
//   - End the connection when it can't continue. Answer the calls that wait only after their
//     context has ended: then the client gets no answer to them;
//   - make no call and no End after Close has returned.
package perconn

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Opener is a service with state for each connection. An oncrpc.Handler of the data plane may
// be an Opener.
type Opener interface {
	// OpenConn is called before a peer's connection is accepted. ctx bounds it. On an error the
	// connection is rejected. A nil Handler without an error means that the service has no
	// state for the connection, and answers its calls itself.
	OpenConn(ctx context.Context, peer netip.AddrPort) (Handler, error)
}

// Handler answers the calls of one connection.
type Handler interface {
	oncrpc.Handler
	// Up reports that the connection is up. It is called once, before the first call, and must
	// not wait for calls.
	Up(c Conn)
	// Close is called once, when the connection has ended and all calls are
	// answered, or when it did not come up.
	Close()
}

// Traited is a Handler with Traits.
type Traited interface {
	Handler
	// Traits always returns the same.
	Traits() Traits
}

// TraitsOf returns the traits of any Handler.
func TraitsOf(h Handler) (t Traits) {
	if h, ok := h.(Traited); ok {
		t = h.Traits()
	}
	return t
}

// Traits describe how a Handler serves calls. The zero value is correct for all.
type Traits struct {
	// Early means that the Handler takes calls whose items have not arrived yet
	// (oncrpc.Call.Arrival).
	Early bool
	// Later means that the Handler does not wait, and answers its calls later
	// (oncrpc.Call.Later), at the latest when their context has ended.
	Later bool
}

// Conn is a connection that is up. Its methods may be called from any
// goroutine.
type Conn interface {
	// OpenBackchannel and Call are those of rpcrdma.Conn.
	OpenBackchannel()
	Call(ctx context.Context, call *rpcrdma.Call) error
	// Inline returns the present value of rpcrdma.Info.
	Inline() (send, receive uint32)
	// Waited reports that a call of the connection waited for d before the service could begin
	// it, for example for room at its upstream. This counts as time before the service started,
	// which adaptive credits follow.
	Waited(d time.Duration)
	// End ends the connection once the replies so far are sent, for a reason that operators
	// see. It does not wait.
	End(reason string)
}
