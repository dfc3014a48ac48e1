package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/dataplane/procedures"
)

var (
	procedureLabels = []string{"service", "program", "version", "procedure"}

	procedureCalls = define(isCounter, "rdmad_procedure_calls_total",
		"RPC calls that a service served, over RDMA and TCP, by procedure. Calls of procedures without a name have the name other.", procedureLabels...)
	procedureErrors = define(isCounter, "rdmad_procedure_errors_total",
		"RPC calls that a service answered with an error: rpc (an RPC error), server (an NFS status such as NFS3ERR_IO, NOSPC or JUKEBOX) or client (another NFS status, such as NFS3ERR_NOENT).", append(procedureLabels[:4:4], "error")...)
	procedureTime = define(isHistogram, "rdmad_procedure_duration_seconds",
		"Time that a service took for a call, upstream and disk included, by procedure.", procedureLabels...)
)

// NewProcedures makes a collector over services. tables returns their counters by service.
func NewProcedures(tables func() map[string]*procedures.Table) prometheus.Collector {
	return &group{[]*prometheus.Desc{procedureCalls, procedureErrors, procedureTime}, func(to sink) {
		for service, t := range tables() {
			t.Each(func(s *procedures.Stats) {
				labels := [...]string{service, s.Program, s.Version, s.Procedure, ""}
				to.counter(procedureCalls, s.Time.Count, labels[:4]...)
				for class, n := range s.Errors {
					labels[4] = procedures.Class(class).String()
					to.counter(procedureErrors, n, labels[:]...)
				}
				to <- histogram.NewMetric(procedureTime, histogram.Seconds, s.Time, labels[:4]...)
			})
		}
	}}
}
