package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

var buildDesc = define(isGauge, "rdmad_build_info", "The version of rdmad and of Go that built it. The value is 1.", "version", "goversion")

// build is the version of rdmad.
type build string

// BuildInfo makes a collector of the version.
func BuildInfo(version string) prometheus.Collector { return build(version) }

// Describe implements prometheus.Collector.
func (build) Describe(ch chan<- *prometheus.Desc) { ch <- buildDesc }

// Collect implements prometheus.Collector.
func (b build) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(buildDesc, prometheus.GaugeValue, 1, string(b), runtime.Version())
}
