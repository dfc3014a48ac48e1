package transport

import (
	"math"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/conn"
)

func TestSizeCounts(t *testing.T) {
	var got, want SizeCounts
	for _, c := range []struct{ n, bucket int }{
		{0, 0}, {1, 1}, {2, 2}, {3, 2}, {4, 3}, {1023, 10}, {1024, 11},
		{conn.MaxMessage, SizeBuckets - 3}, {1 << 22, SizeBuckets - 1}, {math.MaxInt, SizeBuckets - 1},
	} {
		got.add(c.n)
		want[c.bucket]++
		if got != want {
			t.Fatalf("%d: %v, want %v", c.n, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { got.add(4096) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
