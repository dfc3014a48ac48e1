package fair

import (
	"testing"
	"testing/synctest"
	"time"
)

// A long walk sleeps after each stretch, a short one never.
func TestWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			n     int
			each  time.Duration
			rests int
		}{{0, time.Millisecond, 0}, {15, time.Millisecond, 0}, {1000, 0, 0}, {16, time.Millisecond, 1}, {4096, 2 * time.Microsecond, 16}} {
			all := make([]int, c.n)
			for i := range all {
				all[i] = i
			}
			began, next := time.Now(), 0
			Walk(all, 500*time.Microsecond, func(i int) {
				if i != next {
					t.Fatalf("%d in place of %d", i, next)
				}
				next++
				time.Sleep(c.each)
			})
			if slept := time.Since(began) - time.Duration(c.n)*c.each; next != c.n || slept != time.Duration(c.rests)*Nap {
				t.Errorf("%d elements of %v: %d visited, slept %v", c.n, c.each, next, slept)
			}
		}
	})
}
