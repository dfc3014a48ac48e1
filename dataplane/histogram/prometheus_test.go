package histogram

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"
)

var desc = prometheus.NewDesc("test", "test", []string{"listener"}, nil)

func export(t interface{ Fatal(...any) }, h *Histogram, scale *Scale) *dto.Metric {
	s := new(Snapshot)
	h.Snapshot(s)
	var m dto.Metric
	if err := NewMetric(desc, scale, s, "nfs").Write(&m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// native undoes the spans and deltas: counts by exponential bucket.
func native(h *dto.Histogram) map[int32]int64 {
	out := map[int32]int64{}
	var bucket int32
	var count int64
	d := 0
	for _, span := range h.PositiveSpan {
		bucket += span.GetOffset()
		for range span.GetLength() {
			count += h.PositiveDelta[d]
			out[bucket] = count
			bucket++
			d++
		}
	}
	return out
}

func TestNativeBucketsHoldTheValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Uint64Range(0, 1<<30), 0, 100).Draw(t, "values")
		var h Histogram
		want := map[int32]int64{}
		var zeros uint64
		for _, v := range values {
			h.Record(v)
			if v == 0 {
				zeros++
				continue
			}
			want[exponential(float64(middle(index(v)))*1e-9)]++
		}
		m := export(t, &h, Seconds)
		if m.Histogram.GetZeroCount() != zeros || m.Histogram.GetSampleCount() != uint64(len(values)) {
			t.Fatalf("zeros %d of %d, want %d of %d", m.Histogram.GetZeroCount(), m.Histogram.GetSampleCount(), zeros, len(values))
		}
		got := native(m.Histogram)
		if len(got) != len(want) {
			t.Fatalf("native buckets %v, want %v", got, want)
		}
		for b, n := range want {
			if got[b] != n {
				t.Fatalf("native buckets %v, want %v", got, want)
			}
		}
	})
}

func TestExponentialBoundaries(t *testing.T) {
	for v, want := range map[float64]int32{1: 0, 2: 8, 0.5: -8, 1.0001: 1, 1.09: 1, 1.091: 2, 1024: 80} {
		if got := exponential(v); got != want {
			t.Errorf("%g is in native bucket %d, want %d", v, got, want)
		}
	}
}

func TestClassicBucketsAccumulate(t *testing.T) {
	var h Histogram
	for _, v := range []uint64{0, 63, 64, 255, 256, 4096, 5 << 20} {
		h.Record(v)
	}
	m := export(t, &h, Bytes)
	got := map[float64]uint64{}
	for _, b := range m.Histogram.Bucket {
		got[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	for bound, want := range map[float64]uint64{64: 3, 256: 5, 1024: 5, 4096: 6, 16384: 6, 4 << 20: 6} {
		if got[bound] != want {
			t.Errorf("%d values up to %g, want %d (all: %v)", got[bound], bound, want, got)
		}
	}
	if m.Label[0].GetName() != "listener" || m.Label[0].GetValue() != "nfs" {
		t.Errorf("labels %v", m.Label)
	}
}

func TestEmptyStaysNative(t *testing.T) {
	m := export(t, new(Histogram), Seconds)
	if len(m.Histogram.PositiveSpan) != 1 || len(m.Histogram.PositiveDelta) != 0 {
		t.Errorf("spans %v deltas %v: not told from a classic histogram", m.Histogram.PositiveSpan, m.Histogram.PositiveDelta)
	}
}

func TestRegistryTakesTheMetric(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(constant{})
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || families[0].GetType() != dto.MetricType_HISTOGRAM {
		t.Fatalf("%v, %v", families, err)
	}
}

type constant struct{}

func (constant) Describe(ch chan<- *prometheus.Desc) { ch <- desc }

func (constant) Collect(ch chan<- prometheus.Metric) {
	var h Histogram
	h.Record(1500)
	s := new(Snapshot)
	h.Snapshot(s)
	ch <- NewMetric(desc, Seconds, s, "nfs")
}
