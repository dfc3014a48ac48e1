package top

import (
	"cmp"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// column of the table.
type column struct {
	name  string // for --sort
	title string
	right bool
	least int // columns
	// drop says when it goes if the terminal is narrow: the highest first, 0
	// never.
	drop int
	text func(*row) string
	cmp  func(a, b *row) int
}

func texts(name, title string, least, drop int, of func(*row) string) column {
	return column{name: name, title: title, least: least, drop: drop, text: of,
		cmp: func(a, b *row) int { return strings.Compare(of(a), of(b)) }}
}

// numbers are sorted with the largest first.
func numbers(name, title string, least, drop int, write func(float64) string, of func(*row) float64) column {
	return column{name: name, title: title, right: true, least: least, drop: drop,
		text: func(r *row) string { return write(of(r)) },
		cmp:  func(a, b *row) int { return cmp.Compare(of(b), of(a)) }}
}

// columns in their order on the screen. Sparklines come after them.
var columns = []column{
	{name: "id", title: "ID", right: true, least: 3, text: func(r *row) string { return r.id }, cmp: byID},
	texts("listener", "LISTENER", 4, 7, func(r *row) string { return r.listener }),
	texts("peer", "PEER", 12, 1, func(r *row) string { return r.peer }),
	numbers("calls", "CALLS/S", 5, 0, rate, func(r *row) float64 { return r.rates.GetCalls() }),
	numbers("in", "MB IN", 5, 0, megabytes, func(r *row) float64 { return r.rates.GetBytesReceived() }),
	numbers("out", "MB OUT", 5, 0, megabytes, func(r *row) float64 { return r.rates.GetBytesSent() }),
	numbers("reads", "READ/S", 5, 3, rate, func(r *row) float64 { return r.rates.GetRdmaReads() }),
	numbers("writes", "WRITE/S", 5, 3, rate, func(r *row) float64 { return r.rates.GetRdmaWrites() }),
	numbers("sends", "SEND/S", 5, 9, rate, func(r *row) float64 { return r.rates.GetSends() }),
	numbers("inv", "INV/S", 5, 8, rate, func(r *row) float64 { return r.rates.GetSendsWithInvalidate() }),
	numbers("credits", "CRED", 4, 5, whole, func(r *row) float64 { return float64(r.credits) }),
	numbers("busy", "BUSY", 4, 4, whole, func(r *row) float64 { return float64(r.busy) }),
	numbers("errors", "ERR", 3, 2, count, func(r *row) float64 { return r.errors }),
}

// Columns are the names of what can be sorted by.
var Columns = func() (names []string) {
	for i := range columns {
		names = append(names, columns[i].name)
	}
	return names
}()

// columnNamed is the index of a column, -1 for none.
func columnNamed(name string) int {
	for i := range columns {
		if columns[i].name == name {
			return i
		}
	}
	return -1
}

// byID compares ids, which are numbers, by their values.
func byID(a, b *row) int {
	return cmp.Or(cmp.Compare(len(a.id), len(b.id)), strings.Compare(a.id, b.id))
}

// leastSpark and mostSpark bound the sparklines' width.
const (
	leastSpark = 6
	mostSpark  = 60
	sparkDrop  = 6 // as column.drop
)

// layout is which columns are shown, and how wide.
type layout struct {
	shown  []int // columns
	widths []int // of all columns
	spark  int   // 0 for none
}

// lay chooses columns for a width: some go, then the peer is shortened; what
// is left over is the sparklines'.
func (m *model) lay(width int) layout {
	l := layout{spark: leastSpark}
	for i := range columns {
		l.shown = append(l.shown, i)
		l.widths = append(l.widths, m.columnWidth(i))
	}
	peer := columnNamed("peer")
	spare := func() int { return l.widths[peer] - columns[peer].least }
	for l.total()-max(spare(), 0) > width && l.dropOne() {
	}
	if over := l.total() - width; over > 0 {
		l.widths[peer] -= min(over, max(spare(), 0))
	}
	if l.spark > 0 {
		l.spark = min(l.spark+max(width-l.total(), 0), mostSpark)
	}
	return l
}

// dropOne takes away what can be missed best.
func (l *layout) dropOne() bool {
	at, most := -1, 0
	for i, c := range l.shown {
		if columns[c].drop > most {
			at, most = i, columns[c].drop
		}
	}
	switch {
	case l.spark > 0 && most < sparkDrop:
		l.spark = 0
	case at >= 0:
		l.shown = append(l.shown[:at], l.shown[at+1:]...)
	default:
		return false
	}
	return true
}

// total width, with a place for the mark of the chosen row and blanks
// between.
func (l *layout) total() int {
	n := 0
	for _, i := range l.shown {
		n += 1 + l.widths[i]
	}
	if l.spark > 0 {
		n += 1 + l.spark
	}
	return n
}

// columnWidth is what a column needs.
func (m *model) columnWidth(i int) int {
	n := max(columns[i].least, lipgloss.Width(m.heading(i)))
	for _, r := range m.visible {
		n = max(n, lipgloss.Width(terminal.Printable(columns[i].text(r))))
	}
	return n
}

// heading is a column's title; the one that is sorted by has a mark.
func (m *model) heading(i int) string {
	if i != m.sort {
		return columns[i].title
	}
	if m.reverse {
		return columns[i].title + "▴"
	}
	return columns[i].title + "▾"
}
