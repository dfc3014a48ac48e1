package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/procmem"
)

var (
	processMemory = define(isGauge, "rdmad_process_memory_bytes",
		"Memory of the process: mapped (registered memory, records of RPC over TCP), go (heap and stacks), and other that is resident.", "kind")
	processMemoryLimit = define(isGauge, "rdmad_process_memory_limit_bytes",
		"Limit of the process's memory in force, and where it comes from: default, limits.memory, operator or cgroup.", "source")
	processMemoryAsked = define(isGauge, "rdmad_process_memory_limit_asked_bytes",
		"Limit of the process's memory that the configuration or an operator asks for.")
	processGoLimit = define(isGauge, "rdmad_process_memory_go_limit_bytes",
		"Limit of the Go runtime's memory: what the mapped memory leaves.")
	processPeak = define(isGauge, "rdmad_process_resident_peak_bytes",
		"Most memory of the process that the kernel has counted.")
)

// memory collects the memory of the process.
type memory func() procmem.Usage

// NewMemory makes a collector of the memory of the process.
func NewMemory(usage func() procmem.Usage) prometheus.Collector { return memory(usage) }

// Describe implements prometheus.Collector.
func (m memory) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{processMemory, processMemoryLimit, processMemoryAsked, processGoLimit, processPeak} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m memory) Collect(out chan<- prometheus.Metric) {
	u := m()
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(processMemory, u.Mapped, "mapped")
	gauge(processMemory, u.Go, "go")
	gauge(processMemory, u.Other, "other")
	gauge(processMemoryLimit, u.Limit.Bytes, u.Limit.Source)
	gauge(processMemoryAsked, u.Limit.Asked)
	gauge(processGoLimit, u.GoLimit)
	gauge(processPeak, u.PeakResident)
}
