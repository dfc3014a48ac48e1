package rpcrdma_test

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestContinuationAllocations: messages of several transmissions in steady
// state, both sides together.
func TestContinuationAllocations(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: zero{}, settings: speakingWith(continuation), unjudged: true})
	c, _ := b.dial(speakingWith(continuation))
	call := prepared(t, c, b, procEcho, 6<<10)
	one := func() { must(t, c.Call(b.ctx, call)) }
	for range 200 {
		one()
	}
	before := c.Stats()
	if n := testing.AllocsPerRun(500, one); n > 0 {
		t.Errorf("%v allocations per call", n)
	}
	if s := c.Stats(); s.Registrations != before.Registrations {
		t.Errorf("%d registrations", s.Registrations-before.Registrations)
	}
}

// BenchmarkContinuation is an echo of 6 KiB in version 2, by explicit RDMA and
// in transmissions; the ratio is of the former's time to the latter's in the same
// run.
func BenchmarkContinuation(b *testing.B) {
	for _, p := range providers {
		b.Run(p.name, func(b *testing.B) {
			var calls [2]func()
			for i, set := range []func(*rpcrdma.Settings){speaking("on"), speakingWith(continuation)} {
				bed := newBed(b, p.make(b), bedConfig{handler: zero{}, settings: set})
				c, _ := bed.dial(set)
				call := prepared(b, c, bed, procEcho, 6<<10)
				calls[i] = func() {
					if err := c.Call(bed.ctx, call); err != nil {
						b.Fatal(err)
					}
				}
				for range 20 {
					calls[i]()
				}
			}
			var spent [2]time.Duration
			b.ResetTimer()
			for n := range b.N {
				for i := range calls {
					at := time.Now()
					calls[(i+n)%2]()
					spent[(i+n)%2] += time.Since(at)
				}
			}
			b.ReportMetric(float64(spent[0])/float64(b.N), "ns-explicit/op")
			b.ReportMetric(float64(spent[1])/float64(b.N), "ns-continued/op")
			b.ReportMetric(float64(spent[0])/float64(spent[1]), "ratio")
		})
	}
}
