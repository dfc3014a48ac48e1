package telemetry_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/dataplane"
)

// looked counts how often a plane was looked at.
type looked struct {
	*planetest.Plane
	totals, connections int
}

func (l *looked) Stats() []*dataplane.ListenerStats {
	l.totals++
	return l.Plane.Stats()
}

func (l *looked) Connections() []dataplane.ConnInfo {
	l.connections++
	return l.Plane.Connections()
}

// TestSamplersShareLooks: many samplers look no more often than the age of their samples allows,
// and each counts every call once, over the right time.
func TestSamplersShareLooks(t *testing.T) {
	const samplers, rounds, cell = 50, 4, 200 * time.Millisecond
	p := &looked{Plane: plane()}
	looks := telemetry.NewLooks(p, start)
	var all [samplers]*telemetry.Sampler
	var counted [samplers]float64
	for i := range all {
		source := looks.Totals
		if i%2 > 0 {
			source = looks.All
		}
		all[i] = telemetry.New(source, start, cell)
	}
	if p.totals != 2 || p.connections != 1 {
		t.Errorf("begun with %d looks at totals and %d at connections", p.totals, p.connections)
	}
	now := start
	for range rounds * samplers { // one after the other, evenly over a second
		now = now.Add(time.Second / samplers)
		p.Count("9", func(c *dataplane.ConnInfo) { c.Stats.Calls += 3 })
		i := int(now.Sub(start) / (time.Second / samplers) % samplers)
		s := all[i].Sample(now)
		if age := now.Sub(s.At); age < 0 || age >= cell {
			t.Fatalf("a sample is %v old", age)
		}
		counted[i] += s.Total.Calls * s.Seconds
		for _, c := range s.Connections {
			if c.Calls != s.Total.Calls {
				t.Errorf("the connection has %v calls/s of %v", c.Calls, s.Total.Calls)
			}
		}
	}
	if most := 2 * rounds * (int(time.Second/cell) + 1); p.totals > most || p.connections > most/2+1 {
		t.Errorf("%d looks at totals, %d at connections", p.totals, p.connections)
	}
	for i, s := range all {
		last := s.Sample(now.Add(cell))
		if got := counted[i] + last.Total.Calls*last.Seconds; got < 3*rounds*samplers-0.01 || got > 3*rounds*samplers+0.01 {
			t.Errorf("sampler %d counted %v calls", i, got)
		}
	}
}

// TestSamplersShareSamples: samplers share a sample if it begins and ends with the same looks.
// One that came late gets a sample of the time that it missed, and then shares again.
func TestSamplersShareSamples(t *testing.T) {
	const cell = 500 * time.Millisecond
	p := &looked{Plane: plane()}
	looks := telemetry.NewLooks(p, start)
	at := func(s *telemetry.Sampler, ms time.Duration) *telemetry.Sample {
		p.Count("9", func(c *dataplane.ConnInfo) { c.Stats.Calls += 100 })
		runtime.GC() // a look is shared as long as a sampler has it
		return s.Sample(start.Add(ms * time.Millisecond))
	}
	a, b, late := telemetry.New(looks.All, start, cell), telemetry.New(looks.All, start, cell), telemetry.New(looks.All, start, cell)
	first := at(a, 1100)
	if again := at(b, 1499); again != first || !first.At.Equal(start.Add(1100*time.Millisecond)) || first.Seconds != 1.1 || first.Total.Calls < 90 || first.Total.Calls > 91 {
		t.Errorf("%+v, then %+v", first, again)
	}
	second := at(a, 2100)
	if again := at(b, 2400); again != second || second.Seconds != 1 || second.Total.Calls != 200 {
		t.Errorf("%+v, then %+v", second, again)
	}
	missed := at(late, 2450)
	if missed == second || missed.At != second.At || missed.Seconds != 2.1 || missed.Connections[0].Calls != missed.Total.Calls {
		t.Errorf("late: %+v", missed)
	}
	if soon := at(late, 2460); soon.Seconds != 0.36 || !soon.At.Equal(start.Add(2460*time.Millisecond)) {
		t.Errorf("again in the same cell: %+v", soon)
	}
	if p.connections != 4 {
		t.Errorf("%d looks", p.connections)
	}
	last := at(a, 3000)
	if at(b, 3001) != last || at(late, 3002) == last || last.Seconds != 0.9 {
		t.Errorf("%+v", last)
	}
	if at(a, 4000) != at(late, 4499) {
		t.Error("the late one does not share again")
	}
	begun := telemetry.New(looks.All, start.Add(4499*time.Millisecond), cell)
	if at(a, 5000) != at(begun, 5100) {
		t.Error("one that has just begun does not share")
	}
	runtime.KeepAlive(a)
}

// TestEncodedOnce: a sample is encoded once for each form, and again after an error.
func TestEncodedOnce(t *testing.T) {
	s := telemetry.New(telemetry.NewLooks(plane(), start).All, start, 0).Sample(start.Add(time.Second))
	encoded, broken := 0, errors.New("broken")
	form := func(name string, err error) []byte {
		text, got := s.Encoded(name, func(of *telemetry.Sample) ([]byte, error) {
			encoded++
			if of != s {
				t.Error("another sample")
			}
			return []byte(name), err
		})
		if !errors.Is(got, err) || string(text) != name {
			t.Errorf("%q, %v", text, got)
		}
		return text
	}
	form("a", broken)
	a, b := form("a", nil), form("b", nil)
	if again := form("a", nil); &again[0] != &a[0] || &a[0] == &b[0] || encoded != 3 {
		t.Errorf("encoded %d times", encoded)
	}
}

// TestSomeConnections: a sampler of some connections has their rates over its own time, and the
// totals of all.
func TestSomeConnections(t *testing.T) {
	p := plane()
	p.Connect(planetest.Peer{ID: "10", Listener: "nfs", Address: "192.0.2.8:1001"})
	looks := telemetry.NewLooks(p, start)
	s := telemetry.New(looks.Some([]string{"10", "7", "9"}), start, 400*time.Millisecond)
	total := telemetry.New(looks.Totals, start, 400*time.Millisecond)
	count := func() {
		for _, id := range []string{"9", "10"} {
			p.Count(id, func(c *dataplane.ConnInfo) { c.Stats.Calls += 100 })
		}
	}
	count()
	total.Sample(start.Add(900 * time.Millisecond))
	count() // after the totals that the sample has
	got := s.Sample(start.Add(time.Second))
	if got.Seconds != 0.9 || got.Total.Calls < 222 || got.Total.Calls > 223 {
		t.Errorf("totals: %+v", got)
	}
	if len(got.Connections) != 2 || got.Connections[0].ID != "9" || got.Connections[0].Calls != 200 || got.Connections[1].Calls != 200 {
		t.Errorf("connections: %+v", got.Connections)
	}
	runtime.KeepAlive(total) // its look is shared only as long as it exists
}
