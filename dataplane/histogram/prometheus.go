package histogram

import (
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// nativeSchema divides each power of two into 8 exponential buckets.
const nativeSchema = 3

// zeroThreshold is the widest value counted as zero: below any unit we use.
const zeroThreshold = 1e-12

// Metric exports a snapshot as a Prometheus histogram: native buckets for servers that read
// them (protobuf exposition), and classic buckets at every fourth power of two for all others.
//
// Log-linear buckets do not end where exponential ones do. Each is counted completely in the
// bucket that contains its middle, so values within 1/64 of a boundary may be counted one
// native bucket off.
type Metric struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	scale  *Scale
	snap   *Snapshot
}

// Scale converts recorded integers to a metric's unit.
type Scale struct {
	unit   float64
	lo, hi int // classic upper bounds are 4^lo .. 4^hi recorded units

	once   sync.Once
	native [buckets]int32 // exponential bucket of each bucket but that of 0
}

// The scales in use: nanoseconds shown as seconds from 1 us to 17 s, and
// bytes from 64 to 4 Mi.
var (
	Seconds = &Scale{unit: 1e-9, lo: 5, hi: 17}
	Bytes   = &Scale{unit: 1, lo: 3, hi: 11}
)

// NewMetric exports snap under desc. The label values are those of desc's variable labels, in
// order. The metric owns snap.
func NewMetric(desc *prometheus.Desc, scale *Scale, snap *Snapshot, labelValues ...string) *Metric {
	return &Metric{desc: desc, labels: prometheus.MakeLabelPairs(desc, labelValues), scale: scale, snap: snap}
}

// Desc implements prometheus.Metric.
func (m *Metric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *Metric) Write(out *dto.Metric) error {
	m.scale.once.Do(m.scale.fill)
	h := &dto.Histogram{
		SampleCount:   proto.Uint64(m.snap.Count),
		SampleSum:     proto.Float64(float64(m.snap.Sum) * m.scale.unit),
		Schema:        proto.Int32(nativeSchema),
		ZeroThreshold: proto.Float64(zeroThreshold),
		ZeroCount:     proto.Uint64(m.snap.counts[0]),
		Bucket:        m.classic(),
	}
	m.addNative(h)
	out.Label = m.labels
	out.Histogram = h
	return nil
}

func (s *Scale) fill() {
	for i := 1; i < buckets; i++ {
		s.native[i] = exponential(float64(middle(i)) * s.unit)
	}
}

// exponential is the native bucket of v: bucket i holds what is above
// 2^((i-1)/8) and up to 2^(i/8).
func exponential(v float64) int32 {
	return int32(math.Ceil(math.Log2(v) * (1 << nativeSchema)))
}

// classic are the cumulative counts at the powers of four of the scale. A
// bound is inclusive, so the bucket that starts with it counts as below:
// sizes are powers of two more often than one more.
func (m *Metric) classic() []*dto.Bucket {
	out := make([]*dto.Bucket, 0, m.scale.hi-m.scale.lo+1)
	var seen uint64
	i := 0
	for p := m.scale.lo; p <= m.scale.hi; p++ {
		bound := uint64(1) << (2 * p)
		for end := index(bound); i <= end; i++ {
			seen += m.snap.counts[i]
		}
		out = append(out, &dto.Bucket{
			CumulativeCount: proto.Uint64(seen),
			UpperBound:      proto.Float64(float64(bound) * m.scale.unit),
		})
	}
	return out
}

// addNative writes the buckets that hold something as spans and deltas.
func (m *Metric) addNative(h *dto.Histogram) {
	var span *dto.BucketSpan
	var bucket int32        // native bucket being filled
	var count, before int64 // its count, and that of the one written last
	next := int32(0)        // the one after the last span
	flush := func() {
		if count == 0 {
			return
		}
		if span == nil || bucket != next {
			span = &dto.BucketSpan{Offset: proto.Int32(bucket - next), Length: proto.Uint32(0)}
			h.PositiveSpan = append(h.PositiveSpan, span)
		}
		*span.Length++
		next = bucket + 1
		h.PositiveDelta = append(h.PositiveDelta, count-before)
		before, count = count, 0
	}
	for i := 1; i < buckets; i++ {
		if m.snap.counts[i] == 0 {
			continue
		}
		if b := m.scale.native[i]; b != bucket {
			flush()
			bucket = b
		}
		count += int64(m.snap.counts[i])
	}
	flush()
	if len(h.PositiveSpan) == 0 && h.GetZeroCount() == 0 {
		// A span distinguishes an empty native histogram from a classic one.
		h.PositiveSpan = []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}}
	}
}
