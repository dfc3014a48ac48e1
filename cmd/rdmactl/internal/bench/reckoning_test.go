package bench

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/interop/reckoning"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite the figures that are checked in, from which docs/roundtrips.md is made")

const golden = "../../../../interop/reckoning/testdata/loopback.json"

// TestReckoning does all work in all ways at all delays. The counts are those
// that are checked in, and as the clock is the bubble's, each call takes as
// long as its round trips, to the nanosecond.
func TestReckoning(t *testing.T) {
	got := new(reckoning.Report)
	for _, way := range reckoning.Ways() {
		t.Run(way.Name, func(t *testing.T) { got.Ways = append(got.Ways, reckon(t, way, reckoning.Works())) })
	}
	for _, way := range reckoning.Placements() {
		t.Run(way.Name, func(t *testing.T) { got.Placements = append(got.Placements, reckon(t, way, reckoning.Reads())) })
	}
	text, err := got.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s says something else; if the figures are meant to change: make roundtrips\n%s", golden, text)
	}
}

// reckon does all works in one way.
func reckon(t *testing.T, way reckoning.Way, works []reckoning.Work) reckoning.WayReport {
	var set settings.Values
	for _, one := range way.Set {
		name, text, _ := strings.Cut(one, "=")
		k, _ := settings.ParseKey(name)
		value, err := k.Row().Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		set.Set(k, value)
	}
	s, err := target.Configure(rpcrdma.DefaultSettings(), set)
	if err != nil {
		t.Fatal(err)
	}
	r := reckoning.WayReport{Name: way.Name, Set: way.Set}
	for _, work := range works {
		r.Cells = append(r.Cells, reckoning.Cell{Work: work})
	}
	for _, ms := range reckoning.Delays {
		synctest.Test(t, func(t *testing.T) {
			oneWay := time.Duration(ms) * time.Millisecond
			b := newBed(t, s, oneWay)
			b.do(reckoning.Work{Op: "null"}, 3) // to agree on everything
			for i := range r.Cells {
				cell := &r.Cells[i]
				c, took := b.measure(cell.Work)
				if took != c.Takes(oneWay) {
					t.Errorf("%v at %v takes %v, its %d round trips %v", cell.Work, oneWay, took, c.RoundTrips, c.Takes(oneWay))
				}
				if ms != reckoning.Delays[0] && *c != *cell.Counts {
					t.Errorf("%v at %v: %+v, without delay %+v", cell.Work, oneWay, *c, *cell.Counts)
				}
				cell.Counts = c
				cell.Latency = append(cell.Latency, reckoning.Latency{OneWayMS: ms, MS: reckoning.Millis(took)})
			}
			r.Credits, r.ReceiveBytes = b.client.Info().CreditsGranted, b.server.Load().ReceiveBytes
		})
	}
	return r
}

// TestPromises: what the extensions are for.
func TestPromises(t *testing.T) {
	r, err := reckoning.Read(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		way  string
		work reckoning.Work
		want uint64 // round trips
	}{
		{"version 1, 1024", reckoning.Work{Op: "write", Size: 32 << 10}, 2},
		{"version 1, 4096", reckoning.Work{Op: "write", Size: 32 << 10}, 2},
		{"version 2", reckoning.Work{Op: "write", Size: 32 << 10}, 2},
		{"version 1, 1024", reckoning.Work{Op: "echo", Size: 2 << 10}, 2},
		{"version 1, 4096", reckoning.Work{Op: "echo", Size: 2 << 10}, 1},
		{"version 1, 1024", reckoning.Work{Op: "echo", Size: 6 << 10}, 2},
		{"version 1, 4096", reckoning.Work{Op: "echo", Size: 6 << 10}, 2},
		{"version 2", reckoning.Work{Op: "echo", Size: 6 << 10}, 2},
		{"continuation", reckoning.Work{Op: "echo", Size: 6 << 10}, 1},
		{"continuation", reckoning.Work{Op: "write", Size: 32 << 10}, 2},
		{"send-based DDP", reckoning.Work{Op: "write", Size: 32 << 10}, 1},
		{"send-based DDP", reckoning.Work{Op: "write", Size: 256 << 10}, 2},
		{"both", reckoning.Work{Op: "write", Size: 256 << 10}, 1},
		{"both", reckoning.Work{Op: "write", Size: 1 << 20}, 2},
		{"both, one page", reckoning.Work{Op: "echo", Size: 6 << 10}, 1},
		{"both, one page", reckoning.Work{Op: "write", Size: 32 << 10}, 1},
	} {
		way := r.Way(c.way)
		if way == nil {
			t.Errorf("%s is not in %s", c.way, golden)
			continue
		}
		if cell := way.Cell(c.work); cell == nil || cell.RoundTrips != c.want {
			t.Errorf("%v, %s: %+v, want %d round trips", c.work, c.way, cell, c.want)
		}
	}
}

// TestPlacementPromises: the default never costs more operations or round trips
// than any other placement, and saves an RDMA Write where a result turns out to fit.
func TestPlacementPromises(t *testing.T) {
	r, err := reckoning.Read(golden)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Placements) != 4 {
		t.Fatalf("%d placements", len(r.Placements))
	}
	cost := func(place string, work reckoning.Work) *reckoning.Counts {
		for i := range r.Placements {
			if r.Placements[i].Name == place {
				return r.Placements[i].Cell(work).Counts
			}
		}
		t.Fatalf("%s is not in %s", place, golden)
		return nil
	}
	places := settings.DDPPlacement.Row().Choices
	byDefault := places[rpcrdma.DefaultSettings().Placement]
	for _, work := range reckoning.Reads() {
		best := cost(byDefault, work)
		for _, place := range places {
			if c := cost(place, work); c.Operations() < best.Operations() || c.RoundTrips < best.RoundTrips {
				t.Errorf("%v: %s takes %+v, %s %+v", work, byDefault, *best, place, *c)
			}
		}
	}
	short := reckoning.Work{Op: "read", Size: 8 << 10, Asked: 256 << 10}
	for place, writes := range map[string]uint64{"exrw": 1, "tbsn": 1, "choice": 0, "bysize": 0} {
		if c := cost(place, short); c.RDMAWrites != writes || c.Registrations != 1 {
			t.Errorf("%v, %s: %+v", short, place, *c)
		}
	}
}
