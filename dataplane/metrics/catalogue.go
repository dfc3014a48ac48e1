package metrics

import "github.com/prometheus/client_golang/prometheus"

// kind is the type of a metric.
type kind string

const (
	isCounter   kind = "counter"
	isGauge     kind = "gauge"
	isHistogram kind = "histogram"
)

// definition describes a metric. The tables in docs/metrics.md are made of the definitions.
type definition struct {
	name, help string
	kind       kind
	labels     []string
}

// catalogue are all definitions of this package. It is complete before main begins.
var catalogue []definition

// define adds a metric to the catalogue.
func define(k kind, name, help string, labels ...string) *prometheus.Desc {
	catalogue = append(catalogue, definition{name, help, k, labels})
	return prometheus.NewDesc(name, help, labels, nil)
}
