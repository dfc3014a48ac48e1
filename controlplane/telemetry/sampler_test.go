package telemetry_test

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
)

var start = planetest.Born

func plane() *planetest.Plane {
	p := &planetest.Plane{}
	p.Listen("nfs", "127.0.0.1:20049")
	p.Listen("idle", "127.0.0.1:20050")
	p.Connect(planetest.Peer{ID: "9", Listener: "nfs", Address: "192.0.2.7:1001", Stats: rpcrdma.Stats{Calls: 100, Replies: 90}})
	return p
}

func TestRates(t *testing.T) {
	p := plane()
	s := telemetry.New(telemetry.NewLooks(p, start).All, start, 0)
	p.Count("9", func(c *dataplane.ConnInfo) {
		c.Stats.Calls, c.Stats.Replies, c.Stats.RDMAWrites, c.Stats.BytesSent = 120, 120, 10, 4<<20
		c.InFlight, c.CreditsGranted = 3, 17
	})
	p.Connect(planetest.Peer{ID: "10", Listener: "nfs", Address: "192.0.2.8:1001", Stats: rpcrdma.Stats{Calls: 8, Errors: 2}})
	got := s.Sample(start.Add(2 * time.Second))
	if got.Seconds != 2 || len(got.Connections) != 2 || len(got.Listeners) != 2 {
		t.Fatalf("%+v", got)
	}
	first, second := got.Connections[0], got.Connections[1]
	if first.ID != "9" || first.Calls != 10 || first.Replies != 15 || first.RDMAWrites != 5 || first.BytesSent != 2<<20 ||
		first.InProgress != 3 || first.Credits != 17 {
		t.Errorf("connection that was up: %+v", first)
	}
	if second.ID != "10" || second.Calls != 4 || second.Errors != 1 {
		t.Errorf("connection that came up: %+v", second)
	}
	if l := got.Listeners[1]; l.Name != "nfs" || l.Calls != 14 || l.Connections != 2 {
		t.Errorf("its listener: %+v", l)
	}
	if l := got.Listeners[0]; l.Name != "idle" || l.Rates != (telemetry.Rates{}) {
		t.Errorf("the other listener: %+v", l)
	}
	if got.Total.Calls != 14 || got.Total.Errors != 1 {
		t.Errorf("total %+v", got.Total)
	}
}

// TestNextSampleBeginsWhereTheLastEnded: nothing is counted twice, and time
// that nobody looked at counts.
func TestNextSampleBeginsWhereTheLastEnded(t *testing.T) {
	p := plane()
	s := telemetry.New(telemetry.NewLooks(p, start).All, start, 0)
	count := func(calls uint64) { p.Count("9", func(c *dataplane.ConnInfo) { c.Stats.Calls = calls }) }
	count(150)
	if got := s.Sample(start.Add(time.Second)); got.Total.Calls != 50 {
		t.Errorf("first %+v", got.Total)
	}
	if got := s.Sample(start.Add(2 * time.Second)); got.Total.Calls != 0 {
		t.Errorf("nothing happened, but %+v", got.Total)
	}
	count(190)
	if got := s.Sample(start.Add(12 * time.Second)); got.Total.Calls != 4 || got.Seconds != 10 {
		t.Errorf("after a pause %+v over %v s", got.Total, got.Seconds)
	}
}

// TestConnectionEnds: it is no longer listed, and its listener's rates don't
// go below nothing when the sums do, as they would if it were forgotten.
func TestConnectionEnds(t *testing.T) {
	p := plane()
	s := telemetry.New(telemetry.NewLooks(p, start).All, start, 0)
	p.Disconnect("9", "gone")
	got := s.Sample(start.Add(time.Second))
	if len(got.Connections) != 0 || got.Total.Calls != 0 {
		t.Errorf("%+v", got)
	}
	if got := s.Sample(start.Add(time.Second)); got.Seconds != 0 || got.Total != (telemetry.Rates{}) {
		t.Errorf("no time: %+v", got)
	}
}

// measured is a plane whose listeners have service times.
type measured struct {
	*planetest.Plane
	times map[string]*histogram.Histogram
}

func (m measured) Stats() []*dataplane.ListenerStats {
	all := m.Plane.Stats()
	for _, l := range all {
		m.times[l.Name].Snapshot(&l.ServiceTime)
	}
	return all
}

// TestServiceTime: of each listener, and of all calls together.
func TestServiceTime(t *testing.T) {
	m := measured{plane(), map[string]*histogram.Histogram{"nfs": {}, "idle": {}}}
	m.times["nfs"].Record(1e9)
	s := telemetry.New(telemetry.NewLooks(m, start).All, start, 0)
	for range 90 {
		m.times["nfs"].Record(10)
	}
	for range 10 {
		m.times["idle"].Record(50)
	}
	got := s.Sample(start.Add(time.Second))
	if got.P50 != 10 || got.P99 != 50 {
		t.Errorf("all: %v, %v", got.P50, got.P99)
	}
	if l := got.Listeners[0]; l.P50 != 50 || l.P99 != 50 {
		t.Errorf("idle: %+v", l)
	}
	if l := got.Listeners[1]; l.P50 != 10 || l.P99 != 10 {
		t.Errorf("nfs: %+v", l)
	}
}
