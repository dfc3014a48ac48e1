package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
)

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

// UnmarshalJSON reads the members in their order.
func (o *Object) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil { // the brace
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		m := Member{Name: fmt.Sprint(name)}
		if err := dec.Decode(&m.Value); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

// AnswerFields writes m as Answer does, but the messages in its field list have only these
// fields. Other fields are absent, not zero.
func (p *Printer) AnswerFields(m proto.Message, list string, fields []string, table func() *Table) error {
	if p.format == FormatTable {
		return p.Answer(m, table)
	}
	var all Object
	raw, err := jsonLine(m)
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	for i := range all {
		if all[i].Name == list && err == nil {
			all[i].Value, err = only(all[i].Value, fields)
		}
	}
	if err != nil {
		return err
	}
	return p.Answer(all, table)
}

// only keeps some fields of all objects of an array.
func only(array json.RawMessage, fields []string) (json.RawMessage, error) {
	var all []Object
	if err := json.Unmarshal(array, &all); err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = slices.DeleteFunc(all[i], func(m Member) bool { return !slices.Contains(fields, m.Name) })
	}
	return json.Marshal(all)
}
