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

// conditionCollector collects the conditions of a registry.
type conditionCollector struct{ *conditions.Registry }

// NewConditions makes a collector of conditions.
func NewConditions(r *conditions.Registry) prometheus.Collector { return conditionCollector{r} }

// Describe implements prometheus.Collector.
func (conditionCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- conditionDesc
	ch <- healthyDesc
}

// Collect implements prometheus.Collector.
func (c conditionCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, on bool, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, truth(on), labels...)
	}
	all := c.List()
	for i := range all {
		for _, s := range conditions.Statuses {
			gauge(conditionDesc, all[i].Status() == s, string(all[i].Kind()), all[i].Name, s.String())
		}
		if all[i].Kind() == conditions.Listener {
			gauge(healthyDesc, all[i].Reason != conditions.ListenerUnreachable && all[i].Status() != conditions.Failed, all[i].Name)
		}
	}
}
