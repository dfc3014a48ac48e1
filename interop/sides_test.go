package interop

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

var sidesFile = flag.String("sides.json", "", "file for the result of a benchmark that compares servers")

// compareSides does works on servers, in turns: each round begins with another server. It
// prints how fast they are beside the first one.
func compareSides(b *testing.B, names, works []string, do func(b *testing.B, side, work int) float64) {
	b.Helper()
	table := &sideTable{Servers: names}
	defer table.publish(b)
	for w, work := range works {
		b.Run(work, func(b *testing.B) {
			rates := make([][]float64, len(names))
			for round := range b.N {
				for i := range names {
					side := (round + i) % len(names)
					rates[side] = append(rates[side], do(b, side, w))
				}
			}
			for i, s := range table.add(work, rates) {
				b.ReportMetric(s.Rate, names[i]+"-ops/s")
				if i > 0 {
					b.ReportMetric(s.Ratio, names[i]+"-ratio")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sideTable is the result of such a benchmark.
type sideTable struct {
	Servers []string  `json:"servers"` // the first is what others are compared with
	Rows    []sideRow `json:"rows"`    // a work's last run is the one with all rounds
}

// sideRow has the results of one work, in the order of the servers.
type sideRow struct {
	Work    string       `json:"work"`
	Rounds  int          `json:"rounds"`
	Results []sideResult `json:"results"`
}

// sideResult is what one server did. Rate is the median over the rounds, and Ratio that of
// its rates to the first server's in the same round.
type sideResult struct {
	Rate    float64 `json:"ops_per_second"`
	Ratio   float64 `json:"ratio"`
	Lowest  float64 `json:"lowest_ratio"`
	Highest float64 `json:"highest_ratio"`
}

// add adds the rates of a work: for each server the rates of all rounds.
func (t *sideTable) add(work string, rates [][]float64) []sideResult {
	row := sideRow{Work: work, Rounds: len(rates[0])}
	for _, own := range rates {
		ratios := make([]float64, len(own))
		for round := range own {
			ratios[round] = own[round] / rates[0][round]
		}
		row.Results = append(row.Results, sideResult{median(own), median(ratios), slices.Min(ratios), slices.Max(ratios)})
	}
	if n := len(t.Rows); n > 0 && t.Rows[n-1].Work == work {
		t.Rows = t.Rows[:n-1]
	}
	t.Rows = append(t.Rows, row)
	return row.Results
}

// publish prints the table and writes it to the file of the flag.
func (t *sideTable) publish(b *testing.B) {
	b.Helper()
	t.print(os.Stdout)
	if *sidesFile == "" {
		return
	}
	text, err := json.MarshalIndent(t, "", "  ")
	if err == nil {
		err = os.WriteFile(*sidesFile, append(text, '\n'), 0o644)
	}
	if err != nil {
		b.Error(err)
	}
}

// print prints the table in the form of docs/benchmarks.md.
func (t *sideTable) print(to io.Writer) {
	head := []string{"operations/s", t.Servers[0]}
	for _, name := range t.Servers[1:] {
		head = append(head, name, "ratio")
	}
	rows := [][]string{head, slices.Repeat([]string{"---"}, len(head))}
	for _, r := range t.Rows {
		row := []string{r.Work, fmt.Sprintf("%.0f", r.Results[0].Rate)}
		for _, s := range r.Results[1:] {
			row = append(row, fmt.Sprintf("%.0f", s.Rate), fmt.Sprintf("%.2f (%.2f to %.2f)", s.Ratio, s.Lowest, s.Highest))
		}
		rows = append(rows, row)
	}
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w)
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, "\t| "))
	}
}

// median returns the middle value, or the mean of the two middle values.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// TestSideTable checks medians, ratios within rounds, and that the last run of a work counts.
func TestSideTable(t *testing.T) {
	table := &sideTable{Servers: []string{"one", "two"}}
	table.add("read", [][]float64{{1}, {7}})
	table.add("read", [][]float64{{100, 400, 200}, {50, 480, 300}})
	table.add("write", [][]float64{{10, 20}, {10, 40}})
	var out bytes.Buffer
	table.print(&out)
	const want = `
| operations/s | one | two | ratio |
| ---          | --- | --- | --- |
| read         | 200 | 300 | 1.20 (0.50 to 1.50) |
| write        | 15  | 25  | 1.50 (1.00 to 2.00) |
`
	if out.String() != want {
		t.Errorf("printed %s, not %s", &out, want)
	}
	if r := table.Rows[0]; r.Rounds != 3 || r.Results[0].Ratio != 1 {
		t.Errorf("first row %+v", r)
	}
}
