package reckoning

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Report has the figures of some ways over one network.
type Report struct {
	Ways []WayReport `json:"ways"`
	// Placements are of the ways in which results are asked for.
	Placements []WayReport `json:"placements,omitempty"`
}

// WayReport has those of one way.
type WayReport struct {
	Name string   `json:"name"`
	Set  []string `json:"set"`
	// Credits are those granted, ReceiveBytes the registered memory of the
	// server for each.
	Credits      uint32 `json:"credits"`
	ReceiveBytes int64  `json:"receive_bytes"`
	Cells        []Cell `json:"cells"`
}

// Cell has the figures of one kind of call. The counts of a peer that does not
// tell them are nil.
type Cell struct {
	Work
	*Counts
	Latency []Latency `json:"latency"`
}

// Latency is how long calls took when each message took OneWayMS.
type Latency struct {
	OneWayMS int     `json:"one_way_ms"`
	MS       float64 `json:"ms"`
}

// Delays are the one-way delays that are looked at, in ms.
var Delays = []int{0, 1, 10}

// Millis is d in ms, to a thousandth.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Marshal is the report as it is checked in.
func (r *Report) Marshal() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// Read reads a report that Marshal wrote.
func Read(name string) (*Report, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// Way finds a way by its name, nil when it is not there.
func (r *Report) Way(name string) *WayReport {
	for i := range r.Ways {
		if r.Ways[i].Name == name {
			return &r.Ways[i]
		}
	}
	return nil
}

// Cell finds a kind of call, nil when it is not there.
func (w *WayReport) Cell(work Work) *Cell {
	for i := range w.Cells {
		if w.Cells[i].Work == work {
			return &w.Cells[i]
		}
	}
	return nil
}
