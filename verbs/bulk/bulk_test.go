package bulk

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is a gate with goroutines that want places.
type crowd struct {
	*gate
	let chan struct{} // a token lets one goroutine leave
	got chan int      // who got places, in order
}

// come makes goroutines ask for places, one after the other.
func (c *crowd) come(from, to int) {
	for i := from; i < to; i++ {
		go func() {
			c.enter()
			c.got <- i
			<-c.let
			c.leave()
		}()
		synctest.Wait()
	}
}

// out makes one goroutine leave.
func (c *crowd) out() {
	c.let <- struct{}{}
	synctest.Wait()
}

// TestPlaces: each processor has a place, places go to those that have waited longest,
// and one place is kept free while small messages are sent.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ processors, small int }{{1, 1}, {2, 1}, {8, 7}} {
		synctest.Test(t, func(t *testing.T) {
			const n = 40
			g := crowd{gate: newGate(c.processors, func() {}), let: make(chan struct{}), got: make(chan int, n+1)}
			g.note() // nobody moves much: it has no effect
			g.come(0, n)
			inside := func(want int, when string) {
				t.Helper()
				if g.inside != want {
					t.Fatalf("%d processors, %s: %d inside and %d waiting, want %d inside", c.processors, when, g.inside, g.waiting, want)
				}
			}
			inside(c.processors, "without small messages")
			g.out()
			inside(c.processors, "after one left")
			g.note()
			g.out()
			inside(c.small, "with a small message")
			g.out()
			inside(c.small, "and after one more left")
			time.Sleep(keep)
			g.come(n, n+1)
			inside(c.processors, "without small messages for a while")
			for g.inside > 0 {
				g.out()
			}
			for i := range n + 1 {
				// Two may get places at the same moment.
				if who := <-g.got; who < i-1 || who > i+1 {
					t.Errorf("%d processors: goroutine %d got the place of goroutine %d", c.processors, who, i)
				}
			}
			if g.waiting != 0 || g.busy.Load() {
				t.Errorf("%d processors: %d waiting, busy %v", c.processors, g.waiting, g.busy.Load())
			}
		})
	}
}

// TestOthersGoFirst: while small messages are sent, a thread yields its processor once in a
// stretch for each place, before anybody else gets the place. Without them it never does.
func TestOthersGoFirst(t *testing.T) {
	for _, c := range []struct {
		processors, places int
	}{{1, 1}, {2, 1}, {5, 4}} {
		synctest.Test(t, func(t *testing.T) {
			yields := 0
			var g *gate
			g = newGate(c.processors, func() {
				if yields++; g.inside != c.places {
					t.Errorf("%d processors: %d inside while one yields, want %d", c.processors, g.inside, c.places)
				}
			})
			moves := func(small bool, want int, when string) {
				t.Helper()
				yields = 0
				for range 400 {
					g.enter()
					if small {
						g.note()
					}
					time.Sleep(stretch / 40)
					g.leave()
				}
				if yields != want {
					t.Errorf("%d processors, %s: yielded %d times in 10 stretches, want %d", c.processors, when, yields, want)
				}
			}
			for range c.places - 1 {
				g.enter()
			}
			moves(false, 0, "without small messages")
			moves(true, 10*c.places, "with small messages")
			time.Sleep(keep)
			moves(false, 0, "without them again")
		})
	}
}

// TestSmallAmountsNeedNoPlace: they pass while all places are taken.
func TestSmallAmountsNeedNoPlace(t *testing.T) {
	var placed []bool
	for range process.processors {
		placed = append(placed, Enter(Large+1))
	}
	if Enter(Large) || slices.Contains(placed, false) {
		t.Errorf("placed %v", placed)
	}
	for _, p := range append(placed, false) {
		Leave(p)
	}
	if process.inside != 0 {
		t.Errorf("%d inside", process.inside)
	}
}

// TestAllocations: nothing is allocated for a place.
func TestAllocations(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Small(); Leave(Enter(Large + 1)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
