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

// NewMemory makes a collector of the memory of the process.
func NewMemory(usage func() procmem.Usage) prometheus.Collector {
	return &group{[]*prometheus.Desc{processMemory, processMemoryLimit, processMemoryAsked, processGoLimit, processPeak}, func(to sink) {
		u := usage()
		to.gauge(processMemory, float64(u.Mapped), "mapped")
		to.gauge(processMemory, float64(u.Go), "go")
		to.gauge(processMemory, float64(u.Other), "other")
		to.gauge(processMemoryLimit, float64(u.Limit.Bytes), u.Limit.Source)
		to.gauge(processMemoryAsked, float64(u.Limit.Asked))
		to.gauge(processGoLimit, float64(u.GoLimit))
		to.gauge(processPeak, float64(u.PeakResident))
	}}
}
