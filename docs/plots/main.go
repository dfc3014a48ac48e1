// Command plots draws the pictures of the documentation from data that tests
// have checked in. It is a module of its own, so that nothing of rdmad depends
// on what it draws with.
package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"gonum.org/v1/plot/plotter"
)

func main() {
	kind := flag.String("kind", "simulation", "what to draw: simulation, reckoning or ratios")
	data := flag.String("data", "dataplane/adaptive/testdata/simulation.csv", "its data")
	out := flag.String("out", "docs/adaptive.svg", "the picture")
	flag.Parse()
	if err := run(*kind, *data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

// kinds are what can be drawn, from a file.
var kinds = map[string]func(data string, w io.Writer) error{
	"simulation": plotSimulation,
	"reckoning":  plotReckoning,
	"ratios":     plotRatios,
}

func run(kind, data, out string) error {
	plot := kinds[kind]
	if plot == nil {
		return fmt.Errorf("there is no plot of kind %q", kind)
	}
	var picture bytes.Buffer
	if err := plot(data, &picture); err != nil {
		return err
	}
	return os.WriteFile(out, picture.Bytes(), 0o644)
}

// table is the data by column.
type table struct {
	columns map[string][]float64
	phases  []phase
}

// phase is a part of the simulation; from and to are in seconds.
type phase struct {
	name     string
	from, to float64
}

// readRows returns the rows of a file, whose first has the titles.
func readRows(name string) ([][]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("%s: no data", name)
	}
	return rows, nil
}

func read(name string) (*table, error) {
	rows, err := readRows(name)
	if err != nil {
		return nil, err
	}
	if len(rows[0]) < 2 || rows[0][0] != "seconds" || rows[0][1] != "phase" {
		return nil, fmt.Errorf("%s: no data", name)
	}
	t := &table{columns: make(map[string][]float64)}
	for _, row := range rows[1:] {
		for i, title := range rows[0] {
			if title == "phase" {
				continue
			}
			v, err := strconv.ParseFloat(row[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", name, title, err)
			}
			t.columns[title] = append(t.columns[title], v)
		}
		t.enter(row[1])
	}
	return t, nil
}

// enter notes the phase of the row that was read last.
func (t *table) enter(name string) {
	seconds := t.columns["seconds"]
	now := seconds[len(seconds)-1]
	if n := len(t.phases); n > 0 {
		t.phases[n-1].to = now
		if t.phases[n-1].name == name {
			return
		}
	}
	from := now
	if len(seconds) > 1 {
		from = seconds[len(seconds)-2]
	}
	t.phases = append(t.phases, phase{name, from, now})
}

// points are a column over time.
func (t *table) points(column string) plotter.XYs {
	out := make(plotter.XYs, len(t.columns[column]))
	for i, v := range t.columns[column] {
		out[i] = plotter.XY{X: t.columns["seconds"][i], Y: v}
	}
	return out
}
