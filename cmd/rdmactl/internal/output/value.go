package output

import "encoding/json"

// Value writes v, whose JSON is encoding/json's, or in table format what table
// makes of it.
func (p *Printer) Value(v any, table func() *Table) error {
	if p.format == FormatTable {
		return table().write(p.w, p.width, p.colours)
	}
	return p.value(v, true)
}

// ValueEvent writes one v of several: a line of JSON, a YAML document, or a
// line of text.
func (p *Printer) ValueEvent(v any, line func() []Cell) error {
	if p.format == FormatTable {
		return p.line(line())
	}
	if err := p.document(); err != nil {
		return err
	}
	return p.value(v, false)
}

func (p *Printer) value(v any, indent bool) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.raw(raw, indent)
}
