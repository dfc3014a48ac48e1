package main

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// curve is a column and how it is drawn.
type curve struct {
	column, legend string
	color          color.Color
	dashed         bool
}

// Colours that are told apart without red and green.
var (
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	teal   = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	grey   = color.RGBA{0x88, 0x88, 0x88, 0xff}
	pale   = color.RGBA{0xf2, 0xf2, 0xf2, 0xff}
)

// plotSimulation draws a simulation: grants, memory, waiting time.
func plotSimulation(data string, w io.Writer) error {
	t, err := read(data)
	if err != nil {
		return err
	}
	var all []*plot.Plot
	for _, p := range []struct {
		title  string
		curves []curve
		names  bool
	}{
		{"credits per busy connection", []curve{
			{"weight_4", "weight 4", orange, false}, {"weight_2", "weight 2", blue, false}, {"weight_1", "weight 1", teal, false}}, true},
		{"receives (MiB)", []curve{{"memory_mib", "posted", blue, false}, {"budget_mib", "budget", grey, true}}, false},
		{"queueing delay (ms)", []curve{{"queue_ms", "smoothed", orange, false}}, false},
	} {
		one, err := panel(t, p.title, p.curves, p.names)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	all[len(all)-1].X.Label.Text = "seconds"
	return stack(all, 9*vg.Inch, 9*vg.Inch, vg.Points(8), w)
}

// panel draws curves over the phases; names writes the phases' names.
func panel(t *table, title string, curves []curve, names bool) (*plot.Plot, error) {
	p := plot.New()
	p.Y.Label.Text = title
	p.Y.Min = 0
	p.Legend.Top, p.Legend.YOffs = true, -vg.Points(14)
	top := 0.0
	for _, c := range curves {
		for _, v := range t.columns[c.column] {
			top = max(top, v)
		}
	}
	p.Y.Max = top * 1.4 // room for names and legend
	if err := phases(p, t, names); err != nil {
		return nil, err
	}
	for _, c := range curves {
		l, err := plotter.NewLine(t.points(c.column))
		if err != nil {
			return nil, err
		}
		l.Color, l.Width = c.color, vg.Points(1.4)
		if c.dashed {
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(l)
		p.Legend.Add(c.legend, l)
	}
	return p, nil
}

// phases shades every other phase.
func phases(p *plot.Plot, t *table, names bool) error {
	var labels plotter.XYLabels
	for i, ph := range t.phases {
		if i%2 == 1 {
			area, err := plotter.NewPolygon(plotter.XYs{
				{X: ph.from, Y: 0}, {X: ph.to, Y: 0}, {X: ph.to, Y: p.Y.Max}, {X: ph.from, Y: p.Y.Max}})
			if err != nil {
				return err
			}
			area.Color, area.LineStyle.Width = pale, 0
			p.Add(area)
		}
		labels.XYs = append(labels.XYs, plotter.XY{X: ph.from + 0.2, Y: p.Y.Max * 0.95})
		labels.Labels = append(labels.Labels, ph.name)
	}
	if !names {
		return nil
	}
	l, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	p.Add(l)
	return nil
}

// stack draws pictures above each other, with some room between them.
func stack(all []*plot.Plot, width, height, between vg.Length, w io.Writer) error {
	rows := make([][]*plot.Plot, len(all))
	for i := range all {
		rows[i] = all[i : i+1]
	}
	c := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadY: between, PadTop: vg.Points(4), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(12)}
	for i, at := range plot.Align(rows, tiles, draw.New(c)) {
		all[i].Draw(at[0])
	}
	_, err := c.WriteTo(w)
	return err
}
