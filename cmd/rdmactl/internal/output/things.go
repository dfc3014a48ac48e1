package output

import "strconv"

// Field is a column of a table with a row for each T. It has one of Text, Cell, Number and
// Count.
type Field[T any] struct {
	Name  string
	Right bool // also without it if it has Number or Count
	// Min and Drop are those of Column.
	Min, Drop int

	Text   func(T) string
	Cell   func(T) Cell
	Number func(T) uint32
	Count  func(T) float64
}

// Things returns a table with a row for each element of all.
func Things[T any](all []T, fields []Field[T]) *Table {
	t := &Table{}
	for i := range fields {
		f := &fields[i]
		t.Columns = append(t.Columns, Column{f.Name, f.Right || f.Number != nil || f.Count != nil, f.Min, f.Drop})
	}
	for _, one := range all {
		cells := make([]Cell, len(fields))
		for i := range fields {
			cells[i] = fields[i].cell(one)
		}
		t.Cells(cells...)
	}
	return t
}

func (f *Field[T]) cell(of T) Cell {
	switch {
	case f.Text != nil:
		return Cell{Text: f.Text(of)}
	case f.Number != nil:
		return Cell{Text: strconv.FormatUint(uint64(f.Number(of)), 10)}
	case f.Count != nil:
		return Cell{Text: Count(f.Count(of))}
	}
	return f.Cell(of)
}

// Count returns the text of a counter.
func Count(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }

// Pairs returns a whole table of names and values without a head.
func Pairs() *Table { return &Table{Columns: make([]Column, 2), Whole: true} }
