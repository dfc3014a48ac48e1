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

// Object is a JSON object whose members keep their order.
type Object []Member

// Member is one member of an Object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// MarshalJSON writes the members in their order.
func (o Object) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), m.Value...)
	}
	return append(out, '}'), nil
}
