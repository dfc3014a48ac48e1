package manager

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// API is what operators can do; a *Manager does it. All methods may be called
// from any goroutine. Errors are of the types in this package, but for those
// of the system, which say what could not be had.
type API interface {
	// Services describes all services, by name.
	Services() []ServiceInfo
	// AddService binds, opens and serves a service and keeps it for the next
	// start, or does nothing of that.
	AddService(ctx context.Context, s ServiceSpec) (ServiceInfo, error)
	// RemoveService ends a service that no listener uses (*InUseError).
	// Calls over TCP may take until drain is over to finish. Directories
	// and state stay where they are, so that a service of the same name and
	// directory knows its clients' handles. A service of the configuration
	// file is back at the next start.
	RemoveService(name string, drain time.Duration) error

	// Listeners describes all listeners, by name.
	Listeners() []ListenerInfo
	// AddListener binds a listener, accepts, and keeps it for the next start,
	// or does nothing of that.
	AddListener(ctx context.Context, l ListenerSpec) (ListenerInfo, error)
	// RemoveListener stops accepting at once, lets the connections finish
	// their calls until drain is over and cuts those that have not. Asked
	// again meanwhile, the shorter drain holds. A listener of the
	// configuration file is back at the next start.
	RemoveListener(name string, drain time.Duration) (dataplane.Removed, error)
	// UpdateListener changes limits and access. For connections that are up
	// nothing changes, but with EndDenied those that may no longer connect
	// are ended; their number is the second result. A listener of the
	// configuration file gets the file's values back at the next start or
	// reload.
	UpdateListener(name string, u ListenerUpdate) (ListenerInfo, int, error)

	// Limits are those of the whole data plane; SetLimits changes them for
	// connections to come, until the next start or reload.
	Limits() dataplane.Limits
	SetLimits(l dataplane.Limits) error
}

// ListenerUpdate changes a listener; what is nil stays.
type ListenerUpdate struct {
	// Limits changes those that the listener was given: it is called while
	// nobody else changes them.
	Limits      func(*dataplane.Limits)
	Allow, Deny *[]netip.Prefix
	// EndDenied ends the connections that are up and may no longer connect.
	EndDenied bool
}

// Origin says where a service or listener comes from.
type Origin uint8

// The origins.
const (
	FromFile     Origin = iota // the configuration file, or the default without one
	FromOperator               // added while rdmad ran; kept for the next start
)

// String is the origin's word.
func (o Origin) String() string {
	if o == FromOperator {
		return "runtime"
	}
	return "config"
}

// States of services and listeners; a listener's others are the data plane's,
// dataplane.StateUp, dataplane.StateDegraded and dataplane.StateDraining.
const (
	StateUp       = dataplane.StateUp
	StateDraining = dataplane.StateDraining // being removed
	StateDegraded = dataplane.StateDegraded // a listener that nobody can reach for the time being; Failure says why
	StateFailed   = "failed"                // kept, but could not be brought back; Failure says why
)

// ServiceInfo describes a service.
type ServiceInfo struct {
	Spec      ServiceSpec
	Origin    Origin
	State     string
	Failure   string         // with StateFailed
	TCP       netip.AddrPort // as bound; invalid without TCP
	Listeners []string       // that hand calls to it, by name
}

// ListenerInfo describes a listener. With StateFailed the counters and the
// bound address are zero.
type ListenerInfo struct {
	dataplane.ListenerInfo
	Spec    ListenerSpec
	Origin  Origin
	Failure string // with StateFailed and StateDegraded
}
