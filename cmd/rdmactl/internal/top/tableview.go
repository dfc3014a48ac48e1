package top

import (
	"fmt"
	"slices"

	"charm.land/lipgloss/v2"
)

// tableHeight is how many rows can be seen.
func (m *model) tableHeight() int { return max(m.bodyHeight()-1, 0) }

// tableLines are the connections under their headings.
func (m *model) tableLines() []string {
	l := m.lay(m.width, peerColumn)
	out := []string{m.headingsLine(l)}
	if len(m.visible) == 0 {
		return append(out, m.nothing())
	}
	height := m.tableHeight()
	m.first = max(min(m.first, m.cursor), m.cursor-height+1)
	m.first = max(min(m.first, len(m.visible)-height), 0)
	for i := m.first; i < min(m.first+height, len(m.visible)); i++ {
		out = append(out, m.rowLine(l, m.visible[i], i == m.cursor))
	}
	return out
}

// nothing says why the table is empty.
func (m *model) nothing() string {
	l := newLine(m.width)
	if len(m.rows) > 0 {
		return l.add(faint, fmt.Sprintf(" None of %s has %q; esc shows all", plural(len(m.rows), "connection"), m.filter.text)).String()
	}
	return l.add(faint, " No connections").String()
}

func (m *model) headingsLine(l layout) string {
	out := m.headings(l, m.width)
	if l.spark > 0 {
		name := "CALLS/S"
		if l.spark < len(name) {
			name = "CALLS"
		}
		out.add(plain, " ").add(faint, name)
	}
	return out.String()
}

func (m *model) rowLine(l layout, r *row, current bool) string {
	style, mark, sparks := plain, " ", graph
	switch {
	case current:
		style, mark, sparks = chosen, "▸", chosen
	case m.away != nil || r.draining:
		style = faint
	}
	out := newLine(m.width)
	for at, i := range l.shown {
		before := " "
		if at == 0 {
			before = mark
		}
		out.add(style, before).add(m.cellStyle(style, i, r, current), padTo(columns[i].text(r), l.widths[i], columns[i].right))
	}
	if l.spark > 0 {
		out.add(style, " ").add(sparks, padTo(r.calls.spark(l.spark), l.spark, false))
	}
	return out.String()
}

var errorsColumn = slices.Index(Columns, "errors")

// cellStyle marks errors.
func (m *model) cellStyle(style lipgloss.Style, i int, r *row, current bool) lipgloss.Style {
	if i == errorsColumn && r.errors > 0 && !current {
		return bad
	}
	return style
}
