package main

import (
	"fmt"
	"net/http"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// cost is what a process has spent so far, or in a phase.
type cost struct {
	CPU       float64 `json:"cpu_seconds"`
	Collected float64 `json:"gc_cycles"`
	Allocated float64 `json:"bytes_allocated"`
}

func (c *cost) add(from, to cost) {
	c.CPU += to.CPU - from.CPU
	c.Collected += to.Collected - from.Collected
	c.Allocated += to.Allocated - from.Allocated
}

// costs are those of rdmad and of its clients, which share this process.
type costs struct{ rdmad, clients cost }

func (c *costs) add(from, to costs) {
	c.rdmad.add(from.rdmad, to.rdmad)
	c.clients.add(from.clients, to.clients)
}

func (l *load) costs(t testing.TB) costs {
	t.Helper()
	url, end := "http://"+l.p.addresses["metrics"]+"/metrics", time.Now().Add(startTimeout)
	rdmad, err := scrape(url)
	for err != nil && time.Now().Before(end) { // rdmad cuts one that takes 10 s
		rdmad, err = scrape(url)
	}
	must(t, err)
	return costs{rdmad, ownCost(t)}
}

// scrape reads it from a rdmad's metrics.
func scrape(url string) (c cost, err error) {
	res, err := http.Get(url)
	if err != nil {
		return c, err
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return c, err
	}
	for name, value := range map[string]*float64{
		"process_cpu_seconds_total": &c.CPU, "go_memstats_alloc_bytes_total": &c.Allocated, "go_gc_duration_seconds": &c.Collected,
	} {
		f := families[name]
		if f == nil || len(f.Metric) != 1 {
			return c, fmt.Errorf("no %s among the metrics", name)
		}
		*value = f.Metric[0].GetCounter().GetValue() + float64(f.Metric[0].GetSummary().GetSampleCount())
	}
	return c, nil
}

func ownCost(t testing.TB) cost {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return cost{
		CPU:       time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(),
		Collected: float64(s[0].Value.Uint64()),
		Allocated: float64(s[1].Value.Uint64()),
	}
}
