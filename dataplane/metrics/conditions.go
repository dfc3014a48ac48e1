package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/conditions"
)

var (
	conditionDesc = define(isGauge, "rdmad_condition",
		"How a listener, service, upstream, export, certificate or another thing is: 1 for its status, 0 for the others.", "kind", "name", "status")
	healthyDesc = define(isGauge, "rdmad_listener_healthy",
		"1 while clients can reach a listener, 0 while its device, port or address is gone.", listenerLabels...)
)

// NewConditions makes a collector of conditions.
func NewConditions(r *conditions.Registry) prometheus.Collector {
	return &group{[]*prometheus.Desc{conditionDesc, healthyDesc}, func(to sink) {
		all := r.List()
		for i := range all {
			for _, s := range conditions.Statuses {
				to.gauge(conditionDesc, truth(all[i].Status() == s), string(all[i].Kind()), all[i].Name, s.String())
			}
			if all[i].Kind() == conditions.Listener {
				to.gauge(healthyDesc, truth(all[i].Reason != conditions.ListenerUnreachable && all[i].Status() != conditions.Failed), all[i].Name)
			}
		}
	}}
}
