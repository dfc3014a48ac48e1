package output

import (
	"fmt"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// Bar is a row of a histogram.
type Bar struct {
	Label string
	Count float64
}

// barWidth is the length of the longest bar, in terminal columns.
const barWidth = 40

// Histogram draws counts as bars under two headings. Rows without a count at
// both ends are left out.
func Histogram(of, count string, bars []Bar) *Table {
	for len(bars) > 0 && bars[0].Count == 0 {
		bars = bars[1:]
	}
	for len(bars) > 0 && bars[len(bars)-1].Count == 0 {
		bars = bars[:len(bars)-1]
	}
	most := 0.0
	for _, b := range bars {
		most = max(most, b.Count)
	}
	t := &Table{Columns: []Column{{Name: of, Right: true}, {Name: count, Right: true}, {}}}
	for _, b := range bars {
		t.Row(b.Label, fmt.Sprintf("%.0f", b.Count), terminal.Bar(b.Count, most, barWidth))
	}
	return t
}
