package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

var (
	portLabels    = []string{"port"}
	portUpDesc    = prometheus.NewDesc("rdmad_port_connections", "Connections to one of rdmad's own ports.", portLabels, nil)
	portLimitDesc = prometheus.NewDesc("rdmad_port_connections_limit", "Most connections to one of rdmad's own ports.", portLabels, nil)
	portRefused   = prometheus.NewDesc("rdmad_port_connections_refused_total",
		"Connections to one of rdmad's own ports that found no place, by the limit that was reached.", []string{"port", "reason"}, nil)
	portEvicted = prometheus.NewDesc("rdmad_port_connections_evicted_total",
		"Connections to one of rdmad's own ports that were closed for being idle, or for another that needed the place, by reason.", []string{"port", "reason"}, nil)
)

// ports collects from the connection tables of ports, by name.
type ports map[string]*connlimit.Table

// NewPorts makes a collector for the connections of ports, by name.
func NewPorts(tables map[string]*connlimit.Table) prometheus.Collector { return ports(tables) }

// Describe implements prometheus.Collector.
func (p ports) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{portUpDesc, portLimitDesc, portRefused, portEvicted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p ports) Collect(ch chan<- prometheus.Metric) {
	for name, t := range p {
		s := t.Stats()
		ch <- prometheus.MustNewConstMetric(portUpDesc, prometheus.GaugeValue, float64(s.Held), name)
		ch <- prometheus.MustNewConstMetric(portLimitDesc, prometheus.GaugeValue, float64(t.Limits().Total), name)
		for r := range connlimit.Reasons {
			ch <- prometheus.MustNewConstMetric(portRefused, prometheus.CounterValue, float64(s.Refused[r]), name, r.String())
			ch <- prometheus.MustNewConstMetric(portEvicted, prometheus.CounterValue, float64(s.Evicted[r]), name, r.String())
		}
	}
}
