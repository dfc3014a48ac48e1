package metrics

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Groups collect one after the other, also in concurrent scrapes.
func TestOneGroupCollects(t *testing.T) {
	var inside, most atomic.Int32
	r := prometheus.NewRegistry()
	for _, name := range []string{"a", "b", "c", "d"} {
		d := prometheus.NewDesc(name, "help", nil, nil)
		r.MustRegister(&group{[]*prometheus.Desc{d}, func(to sink) {
			most.Store(max(most.Load(), inside.Add(1)))
			for range 100 {
				runtime.Gosched()
			}
			to.gauge(d, 1)
			inside.Add(-1)
		}})
	}
	done := make(chan error)
	for range 2 {
		go func() {
			all, err := r.Gather()
			if len(all) != 4 {
				t.Errorf("%d families", len(all))
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d groups at once", most.Load())
	}
}
