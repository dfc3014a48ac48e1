package adaptive

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "rewrite the simulation's data, from which docs/adaptive.svg is drawn")

const dataFile = "testdata/simulation.csv"

// What is simulated: connections of weights 1, 2 and 4 with budget for half
// of what they want.
const (
	simulated = 1000
	simMax    = 64
	simBudget = (32_000 + 2*simulated) * receiveSize
	callTime  = 500 * time.Millisecond
	plenty    = 100_000 // servers: nobody waits
	few       = 8_000
)

var simWeights = [3]int{1, 2, 4}

// phase is a part of the simulation; check looks at its end.
type phase struct {
	name  string
	last  time.Duration
	begin func(*simulation)
	check func(*simulation)
	moves int // most changes of direction of one connection
}

var phases = []phase{
	{"idle", 2 * time.Second, func(*simulation) {}, (*simulation).checkIdle, 0},
	{"few busy", 5 * time.Second, func(s *simulation) { s.want(func(i int) bool { return i < 20 }) }, (*simulation).checkFew, 0},
	{"all busy", 8 * time.Second, func(s *simulation) { s.want(func(int) bool { return true }) }, (*simulation).checkShared, 2},
	{"service slow", 20 * time.Second, func(s *simulation) { s.servers = few }, (*simulation).checkSlow, 4},
	{"recovery", 15 * time.Second, func(s *simulation) { s.servers = plenty }, (*simulation).checkShared, 1},
	{"half idle", 3 * time.Second, func(s *simulation) { s.want(func(i int) bool { return i%2 == 0 }) }, (*simulation).checkHalf, 2},
}

// simulation is a run of the model.
type simulation struct {
	*world
	t    *testing.T
	data bytes.Buffer
}

// TestSimulation drives 1,000 connections through idleness, load, a service
// that slows down and recovers, by the clock of a bubble.
func TestSimulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, world: &world{now: time.Now(), servers: plenty, serviceTime: callTime}}
		for i := range simulated {
			s.connect(t, simWeights[i%3], 1, simMax)
		}
		fmt.Fprintln(&s.data, "seconds,phase,weight_1,weight_2,weight_4,memory_mib,budget_mib,queue_ms")
		ticker := time.NewTicker(Period)
		defer ticker.Stop()
		start := time.Now()
		for i := range phases {
			s.run(&phases[i], ticker, start)
		}
		s.compare()
	})
}

// run runs a phase and checks what must hold always.
func (s *simulation) run(p *phase, ticker *time.Ticker, start time.Time) {
	p.begin(s)
	before := make([]int, len(s.clients))
	answered := make([]int, len(s.clients))
	for i, c := range s.clients {
		c.moves, c.direction, answered[i] = 0, 0, c.answered
	}
	for end := time.Now().Add(p.last); time.Now().Before(end); {
		<-ticker.C
		s.advance(time.Now())
		for i, c := range s.clients {
			before[i] = c.state.Target
		}
		s.step(simBudget)
		for i, c := range s.clients {
			c.follow(before[i])
			if n := c.state.Target; n < c.state.Min || n > c.state.Max {
				s.t.Fatalf("%s: connection %d: target %d", p.name, i, n)
			}
		}
		if s.memory > simBudget {
			s.t.Fatalf("%s: %d bytes posted, budget %d", p.name, s.memory, simBudget)
		}
		s.record(p, time.Since(start))
	}
	flapped := 0
	for i, c := range s.clients {
		flapped = max(flapped, c.moves)
		if c.want > 0 && c.answered == answered[i] {
			s.t.Errorf("%s: connection %d starved", p.name, i)
		}
	}
	if flapped > p.moves {
		s.t.Errorf("%s: a target changed direction %d times, want at most %d", p.name, flapped, p.moves)
	}
	p.check(s)
}

// want sets who has calls to make: as many as can be.
func (s *simulation) want(busy func(int) bool) {
	for i, c := range s.clients {
		if c.want = 0; busy(i) {
			c.want = simMax
		}
		c.send()
	}
}

// granted is the mean grant of the busy connections of a weight, of all when
// none is.
func (s *simulation) granted(weight int) float64 {
	sum, n, idleSum, idle := 0, 0, 0, 0
	for _, c := range s.clients {
		switch {
		case c.state.Weight != weight:
		case c.want > 0:
			sum, n = sum+c.grants.Limit(), n+1
		default:
			idleSum, idle = idleSum+c.grants.Limit(), idle+1
		}
	}
	if n == 0 {
		return float64(idleSum) / float64(idle)
	}
	return float64(sum) / float64(n)
}

// record adds a line of data, twice a second.
func (s *simulation) record(p *phase, at time.Duration) {
	if at%(500*time.Millisecond) != 0 {
		return
	}
	fmt.Fprintf(&s.data, "%.1f,%s", at.Seconds(), p.name)
	for _, w := range simWeights {
		fmt.Fprintf(&s.data, ",%.2f", s.granted(w))
	}
	fmt.Fprintf(&s.data, ",%.2f,%.2f,%.2f\n", float64(s.memory)/(1<<20), float64(simBudget)/(1<<20), s.group.Delay.Seconds()*1e3)
}

// checkIdle: everybody has what every connection begins with.
func (s *simulation) checkIdle() {
	for i, c := range s.clients {
		if c.state.Target != 8 {
			s.t.Fatalf("idle: connection %d: target %d", i, c.state.Target)
		}
	}
}

// checkFew: the busy ones have all that they want, for there is memory.
func (s *simulation) checkFew() {
	for i, c := range s.clients[:20] {
		if c.granted != simMax {
			s.t.Errorf("few busy: connection %d: granted %d", i, c.granted)
		}
	}
}

// checkShared: the budget is used, and shared by weight.
func (s *simulation) checkShared() {
	s.checkFair()
	if used := float64(s.memory) / simBudget; used < 0.9 {
		s.t.Errorf("all busy: %.2f of the budget used", used)
	}
}

// checkFair: no busy connection is more than a sixteenth, or a credit for the
// rounding, from its part by weight.
func (s *simulation) checkFair() {
	sum, weights := 0, 0
	for _, c := range s.clients {
		if c.want > 0 {
			sum, weights = sum+c.granted, weights+c.state.Weight
		}
	}
	for i, c := range s.clients {
		part := float64(sum) / float64(weights) * float64(c.state.Weight)
		if c.want > 0 && math.Abs(float64(c.granted)-part) > max(part/16, 1) {
			s.t.Errorf("connection %d of weight %d: granted %d, its part is %.1f", i, c.state.Weight, c.granted, part)
			return
		}
	}
}

// checkSlow: calls hardly wait although all connections are busy, and the
// service is busy too.
func (s *simulation) checkSlow() {
	if s.group.Delay > High {
		s.t.Errorf("service slow: calls wait %v", s.group.Delay)
	}
	if s.running.len() < few*9/10 {
		s.t.Errorf("service slow: %d of %d servers busy", s.running.len(), few)
	}
	s.checkFair()
}

// checkHalf: those that are idle keep what they were granted, as no answer can
// take it back; the others share what is left.
func (s *simulation) checkHalf() { s.checkFair() }

// compare compares the data with those that are checked in.
func (s *simulation) compare() {
	if *update {
		if err := os.WriteFile(dataFile, s.data.Bytes(), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(dataFile)
	if err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Equal(want, s.data.Bytes()) {
		s.t.Errorf("the data differ from %s: look at what changed, then run with -update and make plots", dataFile)
	}
}
