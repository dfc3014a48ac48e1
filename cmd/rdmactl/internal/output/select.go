package output

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/proto"
)

// AnswerFields writes m as Answer does, but of the messages in its field list
// only these fields: those that weren't asked for aren't zero, they are not
// there.
func (p *Printer) AnswerFields(m proto.Message, list string, fields []string, table func() *Table) error {
	return p.answer(m, table, func(raw []byte) ([]byte, error) {
		return each(raw, func(key string, value json.RawMessage) (json.RawMessage, bool, error) {
			if key != list {
				return value, true, nil
			}
			out, err := selectAll(value, fields)
			return out, true, err
		})
	})
}

// selectAll keeps some fields of all objects of an array.
func selectAll(array json.RawMessage, fields []string) (json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(array, &all); err != nil {
		return nil, err
	}
	for i := range all {
		var err error
		all[i], err = each(all[i], func(key string, value json.RawMessage) (json.RawMessage, bool, error) {
			return value, slices.Contains(fields, key), nil
		})
		if err != nil {
			return nil, err
		}
	}
	if all == nil {
		return array, nil
	}
	return json.Marshal(all)
}

// each makes an object of what f makes of another's values, in their order.
func each(object []byte, f func(key string, value json.RawMessage) (json.RawMessage, bool, error)) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	out := []byte{'{'}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			continue
		}
		value, keep, err := f(name, value)
		if err != nil {
			return nil, err
		}
		if !keep {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, quoted...), ':'), value...)
	}
	return append(out, '}'), nil
}
