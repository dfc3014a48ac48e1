package top

import (
	"cmp"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	"github.com/rdmad/rdmad/dataplane"
)

// column of a table.
type column[R any] struct {
	name  string // for --sort
	title string
	right bool
	least int // columns
	// drop says when it goes if the terminal is narrow: the highest first, 0
	// never.
	drop int
	text func(R) string
	cmp  func(a, b R) int
}

func texts[R any](name, title string, least, drop int, of func(R) string) column[R] {
	return column[R]{name: name, title: title, least: least, drop: drop, text: of,
		cmp: func(a, b R) int { return strings.Compare(of(a), of(b)) }}
}

// none in place of a number means that there is none.
const none = -1

// numbers are sorted with the largest first.
func numbers[R any](name, title string, least, drop int, write func(float64) string, of func(R) float64) column[R] {
	return column[R]{name: name, title: title, right: true, least: least, drop: drop,
		text: func(r R) string {
			if v := of(r); v != none {
				return write(v)
			}
			return "-"
		},
		cmp: func(a, b R) int { return cmp.Compare(of(b), of(a)) }}
}

// columns in their order on the screen. Sparklines come after them.
var columns = []column[*row]{
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

// Columns has the names of the columns by which connections can be sorted.
var Columns = namesOf(columns)

func namesOf[R any](columns []column[R]) (names []string) {
	for i := range columns {
		names = append(names, columns[i].name)
	}
	return names
}

var peerColumn = slices.Index(Columns, "peer")

func byID(a, b *row) int { return dataplane.CompareID(a.id, b.id) }

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

// table is rows in the order of a column.
type table[R any] struct {
	columns []column[R]
	sort    int // column
	reverse bool
	visible []R // in their order
}

// sortBy chooses a column, round the ends.
func (t *table[R]) sortBy(i int) { t.sort = (i + len(t.columns)) % len(t.columns) }

// sortRows sorts the rows, equal ones by other.
func (t *table[R]) sortRows(other func(a, b R) int) {
	by := t.columns[t.sort].cmp
	slices.SortFunc(t.visible, func(a, b R) int {
		n := by(a, b)
		if t.reverse {
			n = -n
		}
		if n == 0 {
			return other(a, b)
		}
		return n
	})
}

// lay chooses columns for a width: some go, then the column at shrinks, if there is one, is
// shortened; what is left over is the sparklines'.
func (t *table[R]) lay(width, shrinks int) layout {
	l := layout{spark: leastSpark}
	for i := range t.columns {
		l.shown = append(l.shown, i)
		l.widths = append(l.widths, t.columnWidth(i))
	}
	spare := 0
	if shrinks >= 0 {
		spare = max(l.widths[shrinks]-t.columns[shrinks].least, 0)
	}
	for l.total()-spare > width && t.dropOne(&l) {
	}
	if over := l.total() - width; over > 0 && spare > 0 {
		l.widths[shrinks] -= min(over, spare)
	}
	if l.spark > 0 {
		l.spark = min(l.spark+max(width-l.total(), 0), mostSpark)
	}
	return l
}

// dropOne takes away what can be missed best.
func (t *table[R]) dropOne(l *layout) bool {
	at, most := -1, 0
	for i, c := range l.shown {
		if t.columns[c].drop > most {
			at, most = i, t.columns[c].drop
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
func (t *table[R]) columnWidth(i int) int {
	n := max(t.columns[i].least, lipgloss.Width(t.heading(i)))
	for _, r := range t.visible {
		n = max(n, lipgloss.Width(terminal.Printable(t.columns[i].text(r))))
	}
	return n
}

// heading is a column's title; the one that is sorted by has a mark.
func (t *table[R]) heading(i int) string {
	if i != t.sort {
		return t.columns[i].title
	}
	if t.reverse {
		return t.columns[i].title + "▴"
	}
	return t.columns[i].title + "▾"
}

// headings is the line above the rows.
func (t *table[R]) headings(l layout, width int) *line {
	out := newLine(width)
	for _, i := range l.shown {
		style := bold
		if i == t.sort {
			style = title
		}
		out.add(plain, " ").add(style, padTo(t.heading(i), l.widths[i], t.columns[i].right))
	}
	return out
}
