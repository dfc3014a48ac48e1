package loopback

import "testing"

// A ring keeps its entries, in order and under their indexes, however often
// it wraps and grows; popped slots are used again.
func TestRing(t *testing.T) {
	var r ring[[]int]
	next, oldest := 0, 0
	for step := range 2000 {
		if grow := step/100%2 == 0; grow || r.len() == 0 {
			*r.push() = []int{next}
			next++
		} else {
			if got := (*r.first())[0]; got != oldest {
				t.Fatalf("step %d: first is %d, not %d", step, got, oldest)
			}
			r.pop()
			oldest++
		}
		if r.len() != next-oldest {
			t.Fatalf("step %d: length %d, not %d", step, r.len(), next-oldest)
		}
		for i := oldest; i < next; i++ {
			if got := (*r.at(uint64(i)))[0]; got != i {
				t.Fatalf("step %d: entry %d holds %d", step, i, got)
			}
		}
	}
}
