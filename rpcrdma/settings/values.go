package settings

import (
	"maps"
	"slices"
)

// Values holds a value for some of the keys. The zero Values holds none. Values can be
// compared with ==.
type Values struct {
	present KeySet
	v       [NumKeys]uint32
}

// Of returns the values of s, one for every key.
func Of(s *Settings) Values {
	var v Values
	for k := range NumKeys {
		v.Set(k, rows[k].field.get(s))
	}
	return v
}

// Settings returns v for the data plane. Keys without a value are zero.
func (v *Values) Settings() *Settings {
	s := new(Settings)
	for k := range NumKeys {
		rows[k].field.set(s, v.v[k])
	}
	return s
}

// Changed returns the keys whose values differ between two settings.
func Changed(before, now *Settings) KeySet {
	var set KeySet
	if before == now || *before == *now {
		return 0
	}
	for k := range NumKeys {
		if rows[k].field.get(before) != rows[k].field.get(now) {
			set = set.With(k)
		}
	}
	return set
}

// Set sets the value of k.
func (v *Values) Set(k Key, value uint32) {
	v.present = v.present.With(k)
	v.v[k] = value
}

// SetFlag sets the value of a flag.
func (v *Values) SetFlag(k Key, on bool) { v.Set(k, boolValue(on)) }

// Delete removes the value of k.
func (v *Values) Delete(k Key) {
	v.present &^= 1 << k
	v.v[k] = 0
}

// Get returns the value of k. ok is false if there is none.
func (v *Values) Get(k Key) (value uint32, ok bool) { return v.v[k], v.present.Has(k) }

// Value returns the value of k, or 0 if there is none.
func (v *Values) Value(k Key) uint32 { return v.v[k] }

// On reports whether k has a value other than off.
func (v *Values) On(k Key) bool { return v.v[k] != 0 }

// Keys returns the keys that have a value.
func (v *Values) Keys() KeySet { return v.present }

// Overlay sets the values that w holds, and keeps the others.
func (v *Values) Overlay(w *Values) {
	for k := range NumKeys {
		if w.present.Has(k) {
			v.v[k] = w.v[k]
		}
	}
	v.present |= w.present
}

// Differ returns the keys whose values differ between v and w.
func (v *Values) Differ(w *Values) KeySet {
	set := v.present ^ w.present
	for k := range NumKeys {
		if v.v[k] != w.v[k] {
			set = set.With(k)
		}
	}
	return set
}

// Only returns v without the keys that are not in set.
func (v *Values) Only(set KeySet) Values {
	out := *v
	for k := range NumKeys {
		if !set.Has(k) {
			out.Delete(k)
		}
	}
	return out
}

// Format returns the value of k as text for the command line, or "" if there is none.
func (v *Values) Format(k Key) string {
	if !v.present.Has(k) {
		return ""
	}
	return rows[k].Format(v.v[k])
}

// Text returns v as text, by dotted key.
func (v *Values) Text() map[string]string {
	out := make(map[string]string)
	for _, k := range v.Keys().Keys() {
		out[k.String()] = v.Format(k)
	}
	return out
}

// ParseValues reads what Text returns. It does not check ranges. The error is an
// *InvalidError.
func ParseValues(text map[string]string) (Values, error) {
	var v Values
	for _, name := range slices.Sorted(maps.Keys(text)) {
		k, ok := ParseKey(name)
		if !ok {
			return Values{}, Invalid(name, "there is no such setting")
		}
		value, err := rows[k].Parse(text[name])
		if err != nil {
			return Values{}, err
		}
		v.Set(k, value)
	}
	return v, nil
}

// Check checks every value against the range of its key. The error is an *InvalidError with
// all violations.
func (v *Values) Check() error {
	var bad []Violation
	for _, k := range v.Keys().Keys() {
		if text := rows[k].OutOfRange(v.v[k]); text != "" {
			bad = append(bad, Violation{Field: k.String(), Text: text})
		}
	}
	if bad != nil {
		return &InvalidError{Violations: bad}
	}
	return nil
}
