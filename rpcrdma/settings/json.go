package settings

import "encoding/json"

// The state directory holds settings as JSON: values by dotted name, written as on the
// command line.

// MarshalJSON writes an object of text by dotted name.
func (v Values) MarshalJSON() ([]byte, error) { return json.Marshal(v.Text()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Values) UnmarshalJSON(b []byte) error {
	var text map[string]string
	err := json.Unmarshal(b, &text)
	if err == nil {
		*v, err = ParseValues(text)
	}
	return err
}

// ByKey has a value for each key. The zero value means none.
type ByKey[T comparable] [NumKeys]T

// MarshalJSON writes an object by dotted name.
func (a ByKey[T]) MarshalJSON() ([]byte, error) {
	out := make(map[string]T)
	for k, v := range a {
		if v != *new(T) {
			out[Key(k).String()] = v
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *ByKey[T]) UnmarshalJSON(b []byte) error {
	var in map[string]T
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	for name, v := range in {
		k, ok := ParseKey(name)
		if !ok {
			return Invalid(name, "there is no such setting")
		}
		a[k] = v
	}
	return nil
}

// MarshalJSON writes an array of dotted names.
func (s KeySet) MarshalJSON() ([]byte, error) { return json.Marshal(s.names()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (s *KeySet) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return err
	}
	for _, name := range names {
		k, ok := ParseKey(name)
		if !ok {
			return Invalid(name, "there is no such setting")
		}
		*s = s.With(k)
	}
	return nil
}
