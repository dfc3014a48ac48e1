package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plotRatios draws a bar for each row of work and ratio, the first on top, and a line
// where both sides are equally fast.
func plotRatios(data string, w io.Writer) error {
	rows, err := readRows(data)
	if err != nil {
		return err
	}
	var (
		names  []string
		values plotter.Values
	)
	for _, row := range rows[1:] {
		v, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", data, row[0], err)
		}
		names, values = append(names, row[0]), append(values, v)
	}
	slices.Reverse(names)
	slices.Reverse(values)
	p := plot.New()
	p.X.Label.Text = "ratio; 1 is as fast"
	p.X.Min = 0
	bars, err := plotter.NewBarChart(values, vg.Points(12))
	if err != nil {
		return err
	}
	bars.Horizontal, bars.Color = true, blue
	bars.LineStyle.Width = 0
	one, err := plotter.NewLine(plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(values)) - 0.5}})
	if err != nil {
		return err
	}
	one.Color, one.Dashes = orange, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(bars, one)
	p.NominalY(names...)
	c := vgsvg.New(9*vg.Inch, 5*vg.Inch)
	p.Draw(draw.New(c))
	_, err = c.WriteTo(w)
	return err
}
