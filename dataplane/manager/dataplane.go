package manager

import (
	"context"
	"net"
	"net/netip"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connector"
)

// Dataplane prepares listeners and connectors, which it lists after Enter. Over makes one of a
// data plane.
type Dataplane interface {
	PrepareListener(ctx context.Context, cfg dataplane.ListenerConfig) (Listener, error)
	PrepareConnector(ctx context.Context, cfg connector.Config) (Connector, error)
	Listeners() []dataplane.ListenerInfo
	Connectors() []dataplane.ConnectorInfo
	Memory() int64
	SetMemory(limit int64)
}

// Listener is a *dataplane.Listener.
type Listener interface {
	endpoint
	Info() dataplane.ListenerInfo
	EndDenied() int
	Remove(ctx context.Context) dataplane.Removed
}

// Connector is a *connector.Connector.
type Connector interface {
	endpoint
	Addr() netip.AddrPort
	SetMemory(limit int64)
	Start()
	Probe(ctx context.Context) (connected bool, err error)
	Shutdown(ctx context.Context) dataplane.Removed
	Close()
}

// endpoint is the common part of listeners and connectors.
type endpoint interface {
	Sockets() []net.Listener
	Enter()
	Update(l dataplane.Limits, a dataplane.Access) error
}

// Over returns the Dataplane of a data plane.
func Over(d *dataplane.Dataplane) Dataplane { return over{d} }

type over struct{ *dataplane.Dataplane }

func (o over) PrepareListener(ctx context.Context, cfg dataplane.ListenerConfig) (Listener, error) {
	return o.Dataplane.PrepareListener(ctx, cfg)
}

func (o over) PrepareConnector(ctx context.Context, cfg connector.Config) (Connector, error) {
	cfg.Dataplane = o.Dataplane
	return connector.Prepare(ctx, cfg)
}
