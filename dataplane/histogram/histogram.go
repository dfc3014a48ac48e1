// Package histogram counts sizes and durations on the data path: a
// log-linear histogram of atomic counters, recorded without a lock or an
// allocation and read while others record.
//
// A value v below 64 has a bucket of its own. Above, every power of two is
// divided into 32 buckets of equal width, so a bucket is at most 1/32 of its
// value wide. Values of 2^40 and more (18 minutes in ns, 1 TiB) fall into the
// last bucket. A histogram takes 9.3 KiB.
package histogram

import (
	"math/bits"
	"sync/atomic"
)

const (
	subBits = 5 // 32 buckets per power of two
	maxBits = 40
	buckets = (maxBits - subBits + 1) << subBits
)

// Histogram counts values. The zero value is ready for use. It must not be copied.
type Histogram struct {
	sum    atomic.Uint64
	counts [buckets]atomic.Uint64
}

// Record counts v. It may be called from any goroutine and costs two atomic additions.
func (h *Histogram) Record(v uint64) {
	h.counts[index(v)].Add(1)
	h.sum.Add(v)
}

// index is the bucket of v.
func index(v uint64) int {
	if v >= 1<<maxBits {
		return buckets - 1
	}
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bounds are the first value of bucket i and the first after it.
func bounds(i int) (lo, hi uint64) {
	if i < 2<<subBits {
		return uint64(i), uint64(i) + 1
	}
	shift := i>>subBits - 1
	m := uint64(i - shift<<subBits)
	return m << shift, (m + 1) << shift
}

// Snapshot is the content of a histogram at one moment. Recording continues meanwhile, so Sum
// may differ from the counts by the calls that were being recorded.
type Snapshot struct {
	Count, Sum uint64
	counts     [buckets]uint64
}

// Snapshot copies the counters into s.
func (h *Histogram) Snapshot(s *Snapshot) {
	s.Count = 0
	s.Sum = h.sum.Load()
	for i := range h.counts {
		n := h.counts[i].Load()
		s.counts[i] = n
		s.Count += n
	}
}

// Between sets s to the records between two snapshots of one histogram.
func (s *Snapshot) Between(before, after *Snapshot) {
	s.Count, s.Sum = 0, after.Sum-min(after.Sum, before.Sum)
	for i := range after.counts {
		n := after.counts[i] - min(after.counts[i], before.counts[i])
		s.counts[i] = n
		s.Count += n
	}
}

// Add adds the content of another snapshot.
func (s *Snapshot) Add(o *Snapshot) {
	s.Count += o.Count
	s.Sum += o.Sum
	for i, n := range &o.counts {
		s.counts[i] += n
	}
}

// Quantile returns the value below which the fraction q of the records lies, to the bucket's
// width, or 0 for an empty snapshot. q is clamped to 0..1.
func (s *Snapshot) Quantile(q float64) uint64 {
	if s.Count == 0 {
		return 0
	}
	rank := uint64(min(max(q, 0), 1) * float64(s.Count))
	rank = min(rank, s.Count-1)
	var seen uint64
	last := 0
	for i, n := range &s.counts {
		if n == 0 {
			continue
		}
		if seen += n; seen > rank {
			return middle(i)
		}
		last = i
	}
	return middle(last)
}

// Each yields the buckets with records, in order: n values from lo up to hi, not including hi.
func (s *Snapshot) Each(f func(lo, hi, n uint64)) {
	for i, n := range &s.counts {
		if n > 0 {
			lo, hi := bounds(i)
			f(lo, hi, n)
		}
	}
}

// middle is the value that stands for bucket i.
func middle(i int) uint64 {
	lo, hi := bounds(i)
	return lo + (hi-lo)/2
}
