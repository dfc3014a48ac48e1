package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/rdmad/rdmad/dataplane/procedures"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// expect checks everything that a collector exports, and its names.
func expect(t *testing.T, c prometheus.Collector, want string) {
	t.Helper()
	if got := linted(t, c); got != want[1:] {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

// linted returns all that a collector exports but for histograms. It checks the names.
func linted(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(all).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	var text strings.Builder
	for _, f := range all {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// failing answers each call with SYSTEM_ERR.
type failing struct{}

func (failing) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return errors.New("no") }

func TestProcedures(t *testing.T) {
	table := procedures.New()
	h := table.Count(failing{})
	for range 3 {
		_ = oncrpc.Serve(t.Context(), h, &oncrpc.Call{Program: 100003, Version: 3, Procedure: 6}, new(oncrpc.Reply))
	}
	_ = oncrpc.Serve(t.Context(), h, &oncrpc.Call{Program: 7}, new(oncrpc.Reply))
	c := NewProcedures(func() map[string]*procedures.Table { return map[string]*procedures.Table{"export": table} })
	expect(t, c, `
# HELP rdmad_procedure_calls_total RPC calls that a service served, over RDMA and TCP, by procedure. Calls of procedures without a name have the name other.
# TYPE rdmad_procedure_calls_total counter
rdmad_procedure_calls_total{procedure="READ",program="NFS",service="export",version="3"} 3
rdmad_procedure_calls_total{procedure="other",program="other",service="export",version=""} 1
# HELP rdmad_procedure_errors_total RPC calls that a service answered with an error: rpc (an RPC error), server (an NFS status such as NFS3ERR_IO, NOSPC or JUKEBOX) or client (another NFS status, such as NFS3ERR_NOENT).
# TYPE rdmad_procedure_errors_total counter
rdmad_procedure_errors_total{error="client",procedure="READ",program="NFS",service="export",version="3"} 0
rdmad_procedure_errors_total{error="client",procedure="other",program="other",service="export",version=""} 0
rdmad_procedure_errors_total{error="rpc",procedure="READ",program="NFS",service="export",version="3"} 3
rdmad_procedure_errors_total{error="rpc",procedure="other",program="other",service="export",version=""} 1
rdmad_procedure_errors_total{error="server",procedure="READ",program="NFS",service="export",version="3"} 0
rdmad_procedure_errors_total{error="server",procedure="other",program="other",service="export",version=""} 0
`)
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		read := f.Metric[0].GetHistogram()
		if f.GetName() == "rdmad_procedure_duration_seconds" && len(f.Metric) == 2 && read.GetSampleCount() == 3 && len(read.Bucket) > 0 && len(read.PositiveSpan) > 0 {
			return
		}
		t.Errorf("%v", f)
	}
	t.Error("no histogram")
}
