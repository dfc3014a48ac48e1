package metrics

import (
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

// collector collects series of each S, by its name, and what more collects, with the
// descriptions in others. It implements prometheus.Collector.
type collector[S any] struct {
	each   func(visit func(name string, s *S))
	series []series[S]
	others []*prometheus.Desc
	more   func(ch chan<- prometheus.Metric, name string, s *S)
}

// newCollector makes a collector without others.
func newCollector[S any](list []series[S], each func(visit func(string, *S))) *collector[S] {
	return &collector[S]{each: each, series: list}
}

// Describe implements prometheus.Collector.
func (c *collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.series {
		ch <- c.series[i].desc
	}
	for _, d := range c.others {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector[S]) Collect(ch chan<- prometheus.Metric) {
	c.each(func(name string, s *S) {
		for i := range c.series {
			ch <- prometheus.MustNewConstMetric(c.series[i].desc, c.series[i].kind, c.series[i].get(s), name)
		}
		if c.more != nil {
			c.more(ch, name, s)
		}
	})
}

// reasons sends counts by reason. name is the first label.
func reasons[R interface {
	~uint8
	String() string
}](ch chan<- prometheus.Metric, desc *prometheus.Desc, counts []uint64, name string) {
	for why, n := range counts {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), name, R(why).String())
	}
}
