package manager

import (
	"slices"

	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// ReportConditions adds the services, listeners and connectors of m as a source of r. Sets of
// m may be nil.
func ReportConditions(r *conditions.Registry, m API) {
	r.Ask(func() []conditions.Finding {
		return slices.Concat(findings(m.Services, &serviceReasons), findings(m.Listeners, &listenerReasons), findings(m.Connectors, &connectorReasons))
	})
}

func findings[S spec.Named, L any](all Set[S, L], r *reasons) (out []conditions.Finding) {
	if all == nil {
		return nil
	}
	for _, i := range all.List() {
		out = append(out, finding(i.Spec.Called(), i.State, i.Failure, r))
	}
	return out
}

// reasons are the reasons of one kind, by state.
type reasons struct{ up, draining, degraded, failed *conditions.Reason }

var (
	serviceReasons   = reasons{up: conditions.ServiceUp, draining: conditions.ServiceDraining, failed: conditions.ServiceFailed}
	connectorReasons = reasons{up: conditions.ConnectorUp, draining: conditions.ConnectorGoing, failed: conditions.ConnectorFailed}
	listenerReasons  = reasons{
		up: conditions.ListenerUp, draining: conditions.ListenerDraining, degraded: conditions.ListenerUnreachable, failed: conditions.ListenerFailed,
	}
)

func finding(name, state, failure string, r *reasons) conditions.Finding {
	f := conditions.Finding{Name: name, Reason: r.up, Message: failure}
	switch state {
	case StateDraining:
		f.Reason = r.draining
	case StateDegraded:
		f.Reason = r.degraded
	case StateFailed:
		f.Reason = r.failed
	}
	return f
}
