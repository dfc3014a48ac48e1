package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rdmad/rdmad/dataplane/histogram"
)

// loadReport is what a run showed. Times are in microseconds.
type loadReport struct {
	Connections int          `json:"connections"`
	Seconds     float64      `json:"seconds_per_phase"`
	Phases      []phaseTimes `json:"phases"`
	// Ratios of p99 to that of the quiet phase: of all calls, and the median
	// of each slice's with the quiet slice of its round.
	Ratio  map[string]float64 `json:"p99_ratio"`
	Median map[string]float64 `json:"p99_ratio_median_of_slices"`

	Updates struct {
		Made      uint64  `json:"made"`
		Confirmed uint64  `json:"confirmed"`
		Late      uint64  `json:"not_begun"` // all operators still waited for answers
		PerSecond float64 `json:"per_second"`
		Effects   uint64  `json:"effects"`
		P50       float64 `json:"answer_p50_us"`
		P99       float64 `json:"answer_p99_us"`
		Max       float64 `json:"answer_max_us"`
	} `json:"updates"`
	// Streams that nobody read: all, ended by rdmad, told that events are missing.
	Stopped struct {
		Opened  int    `json:"opened"`
		Dropped uint64 `json:"dropped"`
		Skipped uint64 `json:"skipped"`
	} `json:"stopped_readers"`
	Consoles struct {
		Open    int   `json:"open"`
		Read    int64 `json:"bytes_read"`
		Answers int64 `json:"answers"`
	} `json:"consoles"`
}

type phaseTimes struct {
	Phase string  `json:"phase"`
	Calls uint64  `json:"calls"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	// What the two processes spent, the making of streams and updates included.
	Rdmad   cost `json:"rdmad"`
	Clients cost `json:"clients"`
}

func micros(ns uint64) float64 { return float64(ns) / float64(time.Microsecond) }

func (l *load) report() *loadReport {
	r := &loadReport{
		Connections: len(l.clients), Seconds: loadTime.Seconds(), Ratio: map[string]float64{}, Median: map[string]float64{},
	}
	r.Stopped.Opened, r.Stopped.Dropped, r.Stopped.Skipped = l.stopped.opened, l.stopped.dropped.Load(), l.stopped.skipped.Load()
	r.Consoles.Open, r.Consoles.Read, r.Consoles.Answers = *loadConsoles, l.open.read.Load(), l.open.answers.Load()
	for p := range phases {
		var s histogram.Snapshot
		l.callers.latency[p].Snapshot(&s)
		r.Phases = append(r.Phases, phaseTimes{
			Phase: p.String(), Calls: s.Count, P50: micros(s.Quantile(0.5)), P90: micros(s.Quantile(0.9)),
			P99: micros(s.Quantile(0.99)), P999: micros(s.Quantile(0.999)),
			Rdmad: l.spent[p].rdmad, Clients: l.spent[p].clients,
		})
		if p != quiet {
			r.Ratio[p.String()] = r.Phases[p].P99 / r.Phases[quiet].P99
			r.Median[p.String()] = l.callers.median(p)
		}
	}
	u := &l.updates
	var s histogram.Snapshot
	u.answer.Snapshot(&s)
	r.Updates.Made, r.Updates.Confirmed, r.Updates.Late, r.Updates.Effects = u.made.Load(), u.confirmed.Load(), u.late.Load(), u.effects.Load()
	r.Updates.PerSecond = float64(u.made.Load()) / u.took.Seconds()
	r.Updates.P50, r.Updates.P99, r.Updates.Max = micros(s.Quantile(0.5)), micros(s.Quantile(0.99)), micros(uint64(u.slowest.Load()))
	return r
}

// median is that of the ratios of a phase's slices to the quiet ones of the
// same rounds.
func (c *callers) median(p phase) float64 {
	var ratios []float64
	for i := 0; i+int(phases) <= len(c.slices); i += int(phases) {
		var with, without float64
		for _, s := range c.slices[i : i+int(phases)] {
			switch s.phase {
			case p:
				with = float64(s.calls.Quantile(0.99))
			case quiet:
				without = float64(s.calls.Quantile(0.99))
			}
		}
		if without > 0 {
			ratios = append(ratios, with/without)
		}
	}
	if len(ratios) == 0 {
		return 0
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// String is the report as a table.
func (r *loadReport) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "PHASE\tCALLS\tP50 us\tP90 us\tP99 us\tP99.9 us\tP99 RATIO\tMEDIAN OF SLICES\t\n")
	for _, p := range r.Phases {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t", p.Phase, p.Calls, p.P50, p.P90, p.P99, p.P999)
		if ratio, ok := r.Ratio[p.Phase]; ok {
			fmt.Fprintf(w, "%.2f\t%.2f\t\n", ratio, r.Median[p.Phase])
		} else {
			fmt.Fprintf(w, "\t\t\n")
		}
	}
	fmt.Fprintf(w, "\nSPENT\tRDMAD CPU s\tGC CYCLES\tALLOCATED MB\tCLIENTS CPU s\tGC CYCLES\tALLOCATED MB\t\n")
	for _, p := range r.Phases {
		fmt.Fprintf(w, "%s\t%.2f\t%.0f\t%.0f\t%.2f\t%.0f\t%.0f\t\n", p.Phase,
			p.Rdmad.CPU, p.Rdmad.Collected, p.Rdmad.Allocated/1e6, p.Clients.CPU, p.Clients.Collected, p.Clients.Allocated/1e6)
	}
	w.Flush()
	u := &r.Updates
	fmt.Fprintf(&b, "%d connections; %d updates (%d confirmed, %d not begun in time), %.1f per second, %d effects; answered in p50 %.1f ms, p99 %.1f ms, at most %.1f ms; %d streams that nobody read, of which %d were dropped and %d missed events\n",
		r.Connections, u.Made, u.Confirmed, u.Late, u.PerSecond, u.Effects, u.P50/1000, u.P99/1000, u.Max/1000, r.Stopped.Opened, r.Stopped.Dropped, r.Stopped.Skipped)
	fmt.Fprintf(&b, "%d consoles read %.1f MB of streams and %d answers\n", r.Consoles.Open, float64(r.Consoles.Read)/1e6, r.Consoles.Answers)
	return b.String()
}

func (r *loadReport) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
