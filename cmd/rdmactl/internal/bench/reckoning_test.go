package bench

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/interop/reckoning"
	"github.com/rdmad/rdmad/rpcrdma"
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
		s, err := target.Configure(rpcrdma.DefaultSettings(), way.Set)
		if err != nil {
			t.Fatalf("%s: %v", way.Name, err)
		}
		t.Run(way.Name, func(t *testing.T) { got.Ways = append(got.Ways, reckon(t, way, s)) })
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

// reckon does all work in one way.
func reckon(t *testing.T, way reckoning.Way, s *rpcrdma.Settings) reckoning.WayReport {
	r := reckoning.WayReport{Name: way.Name, Set: way.Set}
	for _, work := range reckoning.Works() {
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
