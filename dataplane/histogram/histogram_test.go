package histogram

import (
	"math"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestBucketsTile(t *testing.T) {
	var next uint64
	for i := range buckets {
		lo, hi := bounds(i)
		if lo != next || hi <= lo {
			t.Fatalf("bucket %d is [%d, %d), the one before ended at %d", i, lo, hi, next)
		}
		if index(lo) != i || index(hi-1) != i {
			t.Fatalf("bucket %d is [%d, %d) but its ends are in %d and %d", i, lo, hi, index(lo), index(hi-1))
		}
		if hi-lo > 1 && (hi-lo)*32 > lo {
			t.Fatalf("bucket %d [%d, %d) is wider than 1/32 of its value", i, lo, hi)
		}
		next = hi
	}
	if next != 1<<maxBits {
		t.Fatalf("buckets end at %d", next)
	}
	for _, v := range []uint64{1 << maxBits, math.MaxUint64} {
		if index(v) != buckets-1 {
			t.Errorf("%d is in bucket %d", v, index(v))
		}
	}
}

func TestQuantileNearTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Uint64Range(0, 1<<39), 1, 200).Draw(t, "values")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h Histogram
		var sum uint64
		for _, v := range values {
			h.Record(v)
			sum += v
		}
		var s Snapshot
		h.Snapshot(&s)
		if s.Count != uint64(len(values)) || s.Sum != sum {
			t.Fatalf("count %d sum %d, want %d and %d", s.Count, s.Sum, len(values), sum)
		}
		got := s.Quantile(q)
		rank := min(int(q*float64(len(values))), len(values)-1)
		below, upTo := 0, 0
		for _, v := range values {
			if index(v) < index(got) {
				below++
			}
			if index(v) <= index(got) {
				upTo++
			}
		}
		if below > rank || upTo <= rank {
			t.Fatalf("quantile %g = %d: %d records lie below its bucket, %d up to it, rank is %d", q, got, below, upTo, rank)
		}
	})
}

func TestQuantileEdges(t *testing.T) {
	var s Snapshot
	if got := s.Quantile(0.5); got != 0 {
		t.Errorf("median of nothing is %d", got)
	}
	var h Histogram
	h.Record(7)
	h.Record(9)
	h.Snapshot(&s)
	for q, want := range map[float64]uint64{-1: 7, 0: 7, 0.4: 7, 0.5: 9, 1: 9, 2: 9} {
		if got := s.Quantile(q); got != want {
			t.Errorf("quantile %g = %d, want %d", q, got, want)
		}
	}
}

func TestRecordConcurrently(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range uint64(1000) {
				h.Record(i * i)
			}
		})
	}
	var s Snapshot
	h.Snapshot(&s) // while recording
	wg.Wait()
	h.Snapshot(&s)
	if want := uint64(4 * 332833500); s.Count != 4000 || s.Sum != want {
		t.Errorf("count %d sum %d, want 4000 and %d", s.Count, s.Sum, want)
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	var h Histogram
	v := uint64(1)
	if n := testing.AllocsPerRun(1000, func() { h.Record(v); v += 977 }); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	v := uint64(1)
	for b.Loop() {
		h.Record(v & 0xfffff)
		v += 977
	}
}

func TestEach(t *testing.T) {
	var h Histogram
	var s Snapshot
	for _, v := range []uint64{0, 63, 63, 64, 65, 1000, 1 << 50} {
		h.Record(v)
	}
	h.Snapshot(&s)
	var got [][3]uint64
	s.Each(func(lo, hi, n uint64) { got = append(got, [3]uint64{lo, hi, n}) })
	want := [][3]uint64{{0, 1, 1}, {63, 64, 2}, {64, 66, 2}, {992, 1008, 1}, {63 << 34, 64 << 34, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
