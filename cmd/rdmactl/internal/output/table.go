package output

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// Colour of a cell on a terminal.
type Colour string

// The colours there are.
const (
	Plain  Colour = ""
	Bold   Colour = "\x1b[1m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Red    Colour = "\x1b[31m"
	reset         = "\x1b[0m"
)

// Column describes one column of a table.
type Column struct {
	Name  string
	Right bool // numbers
	// Min is the width to which cells may be shortened if the table is wider than the terminal;
	// 0 means not at all.
	Min int
	// Drop orders the columns that are left out if that is not enough: the highest first, 0
	// never.
	Drop int
}

// Table is rows of cells under columns.
type Table struct {
	Columns []Column
	// Whole tables are not fitted to the terminal: users copy from them, or read texts that nothing else shows.
	Whole bool
	// Next is a table that follows after an empty line.
	Next *Table
	rows [][]Cell
}

// Cell is a text and its colour.
type Cell struct {
	Text   string
	Colour Colour
}

// Row adds a row of plain cells.
func (t *Table) Row(texts ...string) {
	cells := make([]Cell, len(texts))
	for i, s := range texts {
		cells[i].Text = s
	}
	t.Cells(cells...)
}

// Cells adds a row. Texts come from the daemon and from peers, so control characters are
// replaced.
func (t *Table) Cells(cells ...Cell) {
	for i := range cells {
		cells[i].Text = terminal.Printable(cells[i].Text)
	}
	t.rows = append(t.rows, cells)
}

const gap = "  "

// write lays the table out within width terminal columns, 0 for any width.
// A table whose columns have no names has no head.
func (t *Table) write(w io.Writer, width int, colours bool) error {
	fitting := width
	if t.Whole {
		fitting = 0
	}
	shown, widths := t.fit(fitting)
	var out strings.Builder
	head, named := make([]Cell, len(t.Columns)), false
	for i, c := range t.Columns {
		head[i] = Cell{Text: c.Name, Colour: Bold}
		named = named || c.Name != ""
	}
	if named {
		t.line(&out, head, shown, widths, colours)
	}
	for _, row := range t.rows {
		t.line(&out, row, shown, widths, colours)
	}
	if t.Next != nil {
		out.WriteByte('\n')
	}
	if _, err := io.WriteString(w, out.String()); err != nil || t.Next == nil {
		return err
	}
	return t.Next.write(w, width, colours)
}

// fit chooses the columns to show and their widths: it shortens those that
// may be, else drops one and tries again. When no more may go, all but the
// first are shortened.
func (t *Table) fit(width int) (shown, widths []int) {
	floors := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		shown = append(shown, i)
		widths = append(widths, t.width(i))
		floors[i] = widths[i]
		if c.Min > 0 {
			floors[i] = min(widths[i], max(c.Min, len(c.Name)))
		}
	}
	if width == 0 {
		return shown, widths
	}
	for total(shown, floors) > width {
		drop := -1
		for at, i := range shown {
			if t.Columns[i].Drop > 0 && (drop < 0 || t.Columns[i].Drop > t.Columns[shown[drop]].Drop) {
				drop = at
			}
		}
		if drop < 0 {
			for _, i := range shown[1:] {
				floors[i] = 1
			}
			break
		}
		shown = append(shown[:drop], shown[drop+1:]...)
	}
	shorten(shown, widths, floors, total(shown, widths)-width)
	return shown, widths
}

// shorten takes so many terminal columns away, from the widest first, but
// none below its floor.
func shorten(shown, widths, floors []int, columns int) {
	for ; columns > 0; columns-- {
		widest := -1
		for _, i := range shown {
			if widths[i] > floors[i] && (widest < 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (t *Table) width(column int) int {
	n := lipgloss.Width(t.Columns[column].Name)
	for _, row := range t.rows {
		n = max(n, lipgloss.Width(row[column].Text))
	}
	return n
}

func total(shown, widths []int) int {
	n := len(gap) * (len(shown) - 1)
	for _, i := range shown {
		n += widths[i]
	}
	return n
}

func (t *Table) line(out *strings.Builder, row []Cell, shown, widths []int, colours bool) {
	var line strings.Builder
	for at, i := range shown {
		if at > 0 {
			line.WriteString(gap)
		}
		text := terminal.Cut(row[i].Text, widths[i])
		pad := strings.Repeat(" ", widths[i]-lipgloss.Width(text))
		if colours && row[i].Colour != Plain && text != "" {
			text = string(row[i].Colour) + text + reset
		}
		if t.Columns[i].Right {
			line.WriteString(pad + text)
		} else {
			line.WriteString(text + pad)
		}
	}
	out.WriteString(strings.TrimRight(line.String(), " "))
	out.WriteByte('\n')
}
