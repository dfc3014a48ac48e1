package manager

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// API has the operations of operators. A *Manager implements it.
type API struct {
	Services   Set[spec.Service, Serving]
	Listeners  Set[spec.Listener, dataplane.ListenerInfo]
	Connectors Set[spec.Connector, dataplane.ConnectorInfo]
	Limits     LimitsSet
	// Export returns everything that is in service, in the form of a configuration file.
	Export func() Exported
}

// Set is the set of all services, listeners or connectors. Its methods are safe for
// concurrent use. A change is not made if its ctx ends while it waits for another one.
// Errors have the types of this package, except errors of the system, which say what failed.
type Set[S spec.Named, L any] interface {
	// List describes all elements, by name.
	List() []Info[S, L]
	// Add binds, opens and serves a new element, and keeps it for the next start. On an
	// error it changes nothing.
	Add(ctx context.Context, s S) (Info[S, L], error)
	// Update changes an element. change is called while no other change is made; it must not
	// change the name. Limits and access do not affect connections that are up, unless
	// EndDenied ends those that may no longer connect. The second result is their number. Any
	// other change replaces the element, and with a service its listeners: Update first binds
	// and opens everything that the change needs, and on an error changes nothing. Then it
	// drains the connections of the replaced element. A change of an element of the
	// configuration file is kept for the next start, and overrides later versions of the file,
	// until Unset or the removal of the element.
	Update(ctx context.Context, name string, change func(*S), o UpdateOptions) (Updated[S, L], int, error)
	// Remove stops accepting at once and lets the connections finish their calls. After
	// drain it cuts the remaining ones. If Remove is called again meanwhile, the shorter
	// drain applies. An element of the configuration file is back at the next start or reload. A
	// service that a listener uses is not removed (*InUseError). The directories and state
	// of a service are never removed, so that a service of the same name and directory
	// accepts its clients' handles.
	Remove(ctx context.Context, name string, drain time.Duration) (Removal[S], error)
}

// UpdateOptions decide about the connections of an updated element.
type UpdateOptions struct {
	EndDenied bool
	Drain     time.Duration // the most that the connections of a replaced element have
	// Unset selects fields that get the configuration file's values back; nil selects none.
	Unset func(*spec.Field) bool
}

// Info describes a service, a listener or a connector.
type Info[S spec.Named, L any] struct {
	Spec    S
	Origin  Origin
	State   string
	Failure string   // reason for StateFailed and StateDegraded
	Changed []string // fields of an element of the file that operators changed
	Live    L        // zero with StateFailed
}

// Updated describes an element that was updated.
type Updated[S spec.Named, L any] struct {
	Info[S, L]
	Before S
}

// Removal describes an element that was removed.
type Removal[S spec.Named] struct {
	dataplane.Removed
	Before S
}

type (
	// ServiceInfo describes a service.
	ServiceInfo = Info[spec.Service, Serving]
	// ListenerInfo describes a listener.
	ListenerInfo = Info[spec.Listener, dataplane.ListenerInfo]
	// ConnectorInfo describes a connector.
	ConnectorInfo = Info[spec.Connector, dataplane.ConnectorInfo]
)

// Serving describes a running service.
type Serving struct {
	TCP       netip.AddrPort // as bound; invalid without TCP
	Listeners []string       // listeners that give calls to it, by name
}

// Origin is where a service, listener or connector comes from.
type Origin uint8

// The origins.
const (
	FromFile     Origin = iota // the configuration file, or the default without one
	FromOperator               // added while rdmad ran; kept for the next start
)

// String returns "config" or "runtime".
func (o Origin) String() string {
	if o == FromOperator {
		return "runtime"
	}
	return "config"
}

// States. Listeners also have the other states of the data plane.
const (
	StateUp       = dataplane.StateUp
	StateDraining = dataplane.StateDraining // being removed, or rdmad ends
	StateDegraded = dataplane.StateDegraded // a listener that can't be reached for now; Failure has the reason
	StateFailed   = "failed"                // kept, but could not be restored; Failure has the reason
)
