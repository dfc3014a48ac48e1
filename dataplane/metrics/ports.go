package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

var (
	portRefused = define(isCounter, "rdmad_port_connections_refused_total",
		"Connections to one of rdmad's own ports that found no place, by the limit that was reached.", "port", "reason")
	portEvicted = define(isCounter, "rdmad_port_connections_evicted_total",
		"Connections to one of rdmad's own ports that were closed for being idle, or for another that needed the place, by reason.", "port", "reason")
)

// portSeries are the series of a port.
var portSeries = named("rdmad_port_", "port", []series[connlimit.Table]{
	gauge("connections", "Connections to one of rdmad's own ports.",
		func(t *connlimit.Table) float64 { return float64(t.Stats().Held) }),
	gauge("connections_limit", "Most connections to one of rdmad's own ports.",
		func(t *connlimit.Table) float64 { return float64(t.Limits().Total) }),
})

// NewPorts makes a collector for the connections of ports, by name.
func NewPorts(tables map[string]*connlimit.Table) prometheus.Collector {
	return newCollector(portSeries, func(visit func(string, *connlimit.Table)) {
		for name, t := range tables {
			visit(name, t)
		}
	}, func(to sink, name string, t *connlimit.Table) {
		s := t.Stats()
		reasons[connlimit.Reason](to, portRefused, s.Refused[:], name)
		reasons[connlimit.Reason](to, portEvicted, s.Evicted[:], name)
	}, portRefused, portEvicted)
}
