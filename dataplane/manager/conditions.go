package manager

import (
	"cmp"
	"slices"

	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// ReportConditions adds the services, listeners and connectors of m as a source of r. Sets of
// m may be nil.
func ReportConditions(r *conditions.Registry, m API) {
	r.Ask(func() []conditions.Finding {
		return slices.Concat(findings(m.Services, serviceReasons), findings(m.Listeners, listenerReasons), findings(m.Connectors, connectorReasons))
	})
}

func findings[S spec.Named, L any](all Set[S, L], r reasons) (out []conditions.Finding) {
	if all == nil {
		return nil
	}
	for _, i := range all.List() {
		out = append(out, conditions.Finding{Name: i.Spec.Called(), Reason: cmp.Or(r[i.State], r[StateUp]), Message: i.Failure})
	}
	return out
}

// reasons are the reasons of one kind, by state. A state that is not there counts as up.
type reasons map[string]*conditions.Reason

var (
	serviceReasons   = reasons{StateUp: conditions.ServiceUp, StateDraining: conditions.ServiceDraining, StateFailed: conditions.ServiceFailed}
	connectorReasons = reasons{StateUp: conditions.ConnectorUp, StateDraining: conditions.ConnectorGoing, StateFailed: conditions.ConnectorFailed}
	listenerReasons  = reasons{
		StateUp: conditions.ListenerUp, StateDraining: conditions.ListenerDraining, StateDegraded: conditions.ListenerUnreachable, StateFailed: conditions.ListenerFailed,
	}
)
