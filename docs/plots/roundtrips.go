package main

import (
	"encoding/json"
	"fmt"
	"image/color"
	"io"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// reckoning is what the plot needs of a report of package reckoning.
type reckoning struct {
	Ways []struct {
		Name  string
		Cells []cell
	}
}

type cell struct {
	Op                  string
	Size                int
	CallSends           float64 `json:"call_sends"`
	ReplySends          float64 `json:"reply_sends"`
	RDMAReads           float64 `json:"rdma_reads"`
	RDMAWrites          float64 `json:"rdma_writes"`
	Registrations       float64 `json:"registrations"`
	LocalInvalidations  float64 `json:"local_invalidations"`
	RemoteInvalidations float64 `json:"remote_invalidations"`
	Latency             []struct {
		OneWayMS int `json:"one_way_ms"`
		MS       float64
	}
}

// operations are all that the two adapters do for a call.
func (c *cell) operations() float64 {
	return c.CallSends + c.ReplySends + c.RDMAReads + c.RDMAWrites + c.Registrations + c.LocalInvalidations + c.RemoteInvalidations
}

// slowest is the latency at the longest delay, in ms.
func (c *cell) slowest() float64 { return c.Latency[len(c.Latency)-1].MS }

func (c *cell) name() string {
	name := strings.ToUpper(c.Op)
	switch {
	case c.Size == 0:
		return name
	case c.Size%(1<<20) == 0:
		return fmt.Sprintf("%s\n%d MiB", name, c.Size>>20)
	}
	return fmt.Sprintf("%s\n%d KiB", name, c.Size>>10)
}

// barColours are for the ways in their order; told apart without red and green.
var barColours = []color.Color{
	grey, blue, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, teal, orange, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0xbb, 0xbb, 0xbb, 0xff},
}

// plotReckoning draws a report: what calls wait for, and what they take.
func plotReckoning(data string, w io.Writer) error {
	text, err := os.ReadFile(data)
	if err != nil {
		return err
	}
	var r reckoning
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	if len(r.Ways) == 0 || len(r.Ways) > len(barColours) {
		return fmt.Errorf("%s: %d ways", data, len(r.Ways))
	}
	var all []*plot.Plot
	for _, p := range []struct {
		title string
		value func(*cell) float64
	}{
		{"latency (ms) at 10 ms one way", (*cell).slowest},
		{"operations of both adapters", (*cell).operations},
	} {
		one, err := bars(&r, p.title, p.value)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	return stack(all, 11*vg.Inch, 7*vg.Inch, vg.Points(10), w)
}

// bars draws one value: a group for each call, a bar for each way.
func bars(r *reckoning, title string, value func(*cell) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Y.Label.Text = title
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	top, width := 0.0, vg.Points(54)/vg.Length(len(r.Ways))
	for i := range r.Ways {
		var values plotter.Values
		for k := range r.Ways[i].Cells {
			v := value(&r.Ways[i].Cells[k])
			values, top = append(values, v), max(top, v)
		}
		b, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil, err
		}
		b.Color, b.LineStyle.Width = barColours[i], 0
		b.Offset = width * vg.Length(float64(i)-float64(len(r.Ways)-1)/2)
		p.Add(b)
		p.Legend.Add(r.Ways[i].Name, b)
	}
	p.Y.Max = top * 2 // room for the legend
	names := make([]string, len(r.Ways[0].Cells))
	for k := range names {
		names[k] = r.Ways[0].Cells[k].name()
	}
	p.NominalX(names...)
	return p, nil
}
