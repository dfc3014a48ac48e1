package reckoning

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Report has the figures of several ways over one network.
type Report struct {
	Ways []WayReport `json:"ways"`
	// Placements are the figures of the values of ddp.placement.
	Placements []WayReport `json:"placements,omitempty"`
}

// WayReport has the figures of one way.
type WayReport struct {
	Name string   `json:"name"`
	Set  []string `json:"set"`
	// Credits is the number of granted credits, ReceiveBytes the server's
	// registered receive memory for each credit.
	Credits      uint32 `json:"credits"`
	ReceiveBytes int64  `json:"receive_bytes"`
	Cells        []Cell `json:"cells"`
}

// Cell has the figures of one kind of call. Counts is nil if the peer does not
// report them.
type Cell struct {
	Work
	*Counts
	Latency []Latency `json:"latency"`
}

// Latency is how long a call takes if each message takes OneWayMS. Both are in
// milliseconds.
type Latency struct {
	OneWayMS int     `json:"one_way_ms"`
	MS       float64 `json:"ms"`
}

// Delays are the one-way delays that are compared, in milliseconds.
var Delays = []int{0, 1, 10}

// Millis returns d in milliseconds, with three decimal places.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Marshal returns the report in the form that is checked in.
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

// Way returns the way with a name, or nil.
func (r *Report) Way(name string) *WayReport {
	for i := range r.Ways {
		if r.Ways[i].Name == name {
			return &r.Ways[i]
		}
	}
	return nil
}

// Cell returns the figures of a kind of call, or nil.
func (w *WayReport) Cell(work Work) *Cell {
	for i := range w.Cells {
		if w.Cells[i].Work == work {
			return &w.Cells[i]
		}
	}
	return nil
}
