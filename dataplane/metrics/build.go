package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

var buildDesc = define(isGauge, "rdmad_build_info", "The version of rdmad and of Go that built it. The value is 1.", "version", "goversion")

// BuildInfo makes a collector of the version.
func BuildInfo(version string) prometheus.Collector {
	return &group{[]*prometheus.Desc{buildDesc}, func(to sink) { to.gauge(buildDesc, 1, version, runtime.Version()) }}
}
