package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// series is one number of each S, for example of each listener.
type series[S any] struct {
	name, help string
	kind       prometheus.ValueType
	get        func(*S) float64
	desc       *prometheus.Desc // set by named
}

func counter[S any](name, help string, get func(*S) uint64) series[S] {
	return series[S]{name: name, help: help, kind: prometheus.CounterValue, get: func(s *S) float64 { return float64(get(s)) }}
}

// timeCounter is a counter of a time.
func timeCounter[S any](name, help string, get func(*S) time.Duration) series[S] {
	return series[S]{name: name, help: help, kind: prometheus.CounterValue, get: func(s *S) float64 { return get(s).Seconds() }}
}

func gauge[S any](name, help string, get func(*S) float64) series[S] {
	return series[S]{name: name, help: help, kind: prometheus.GaugeValue, get: get}
}

// named defines series. Each one's name begins with prefix, and label is the name of each S.
func named[S any](prefix, label string, list []series[S]) []series[S] {
	for i := range list {
		s := &list[i]
		k := isGauge
		if s.kind == prometheus.CounterValue {
			k = isCounter
		}
		s.desc = define(k, prefix+s.name, s.help, label)
	}
	return list
}

// newCollector makes a collector of series of each S, by its name, and of what more, if not
// nil, collects, with the descriptions in others.
func newCollector[S any](list []series[S], each func(visit func(string, *S)), more func(to sink, name string, s *S), others ...*prometheus.Desc) prometheus.Collector {
	for i := range list {
		others = append(others, list[i].desc)
	}
	return &group{others, func(to sink) {
		each(func(name string, s *S) {
			for i := range list {
				to <- prometheus.MustNewConstMetric(list[i].desc, list[i].kind, list[i].get(s), name)
			}
			if more != nil {
				more(to, name, s)
			}
		})
	}}
}

// ofServices visits what a function returns by service.
func ofServices[S any](stats func() map[string]S) func(visit func(string, *S)) {
	return func(visit func(string, *S)) {
		for name, s := range stats() {
			visit(name, &s)
		}
	}
}

// group collects metrics that are not a number of each of several things. It implements
// prometheus.Collector.
type group struct {
	descs   []*prometheus.Desc
	collect func(sink)
}

// Describe implements prometheus.Collector.
func (g *group) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

// one lets one group collect at a time. The registry would let all of them do so at once. With
// thousands of connections, some take milliseconds, and would leave no processor to calls.
var one sync.Mutex

// Collect implements prometheus.Collector.
func (g *group) Collect(ch chan<- prometheus.Metric) {
	one.Lock()
	defer one.Unlock()
	g.collect(ch)
}

// sink takes the metrics of a scrape.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, n uint64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// reasons sends counts by reason. name is the first label.
func reasons[R interface {
	~uint8
	String() string
}](to sink, desc *prometheus.Desc, counts []uint64, name string) {
	for why, n := range counts {
		to.counter(desc, n, name, R(why).String())
	}
}
