package spec

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"strings"
	"time"
)

// Field is a field of a specification, as declared.
type Field struct {
	// Path is its key with the keys of its sections, for example limits.idle.
	Path string
	// Type is the type of its values.
	Type  reflect.Type
	index []int
	tag   reflect.StructTag
}

// Doc returns the field's documentation.
func (f *Field) Doc() string { return f.tag.Get("doc") }

// Default returns the default value as text, or "" if there is none.
func (f *Field) Default() string { return f.tag.Get("default") }

// Values returns the values that a text may have. nil means any.
func (f *Field) Values() []string {
	if v := f.tag.Get("values"); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// Range returns the least and the largest value as text. They are "" if only the type bounds
// the value.
func (f *Field) Range() (low, high string) {
	low, high, _ = strings.Cut(f.tag.Get("range"), "..")
	return low, high
}

// API returns the field's path in the messages of the API.
func (f *Field) API() string {
	if p := f.tag.Get("api"); p != "" {
		return p
	}
	return f.Path
}

// Section reports whether the field is an optional group of fields. These follow it.
func (f *Field) Section() bool { return isSection(f.Type) }

// Items reports whether the field is a list of sections.
func (f *Field) Items() bool { return f.Type.Kind() == reflect.Slice && isStruct(f.Type.Elem()) }

// In returns the field's value in the struct to which root points. With make, missing
// sections on the way are made. Without it, a missing section results in an invalid value.
func (f *Field) In(root reflect.Value, make bool) reflect.Value {
	v := root.Elem()
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !make {
					return reflect.Value{}
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

func isSection(t reflect.Type) bool { return t.Kind() == reflect.Pointer && isStruct(t.Elem()) }

// isStruct reports whether t is a group of fields, not a value.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[netip.Prefix]()
}

// Fields yields the fields of a struct type in order, including those of groups, but not
// those of lists.
func Fields(t reflect.Type) iter.Seq[Field] {
	return func(yield func(Field) bool) { fields(t, "", nil, yield) }
}

// Of yields the fields of T.
func Of[T any]() iter.Seq[Field] { return Fields(reflect.TypeFor[T]()) }

func fields(t reflect.Type, prefix string, index []int, yield func(Field) bool) bool {
	for i := range t.NumField() {
		sf := t.Field(i)
		key := sf.Tag.Get("mapstructure")
		if key == "-" || key == "" {
			continue
		}
		at := append(index[:len(index):len(index)], i)
		if key == ",squash" {
			if !fields(sf.Type, prefix, at, yield) {
				return false
			}
			continue
		}
		f := Field{Path: prefix + key, Type: sf.Type, index: at, tag: sf.Tag}
		if inner := sf.Type; isSection(inner) || isStruct(inner) {
			if isSection(inner) {
				if !yield(f) {
					return false
				}
				inner = inner.Elem()
			}
			if !fields(inner, f.Path+".", at, yield) {
				return false
			}
			continue
		}
		if !yield(f) {
			return false
		}
	}
	return true
}

// Text returns a value in one line, as in the configuration file and on the command line: with commas
// between list items. A list of sections is JSON, which both read, too.
func Text(v reflect.Value) string {
	if v.Kind() == reflect.Slice && isStruct(v.Type().Elem()) {
		text, _ := json.Marshal(encode(v)) // maps, lists and scalars always have one
		return string(text)
	}
	if v.Kind() == reflect.Slice {
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = Text(v.Index(i))
		}
		return strings.Join(texts, ",")
	}
	switch x := v.Interface().(type) {
	case bool:
		if x {
			return "on"
		}
		return "off"
	case time.Duration:
		return durationText(x)
	}
	return fmt.Sprint(v.Interface())
}

// durationText omits the zero parts of a duration such as 1h0m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// String returns all given values as KEY=VALUE.
func String(spec any) string {
	root := reflect.ValueOf(spec)
	var parts []string
	for f := range Fields(root.Type().Elem()) {
		v := f.In(root, false)
		switch {
		case !v.IsValid() || v.IsZero():
		case f.Section():
			parts = append(parts, f.Path)
		default:
			parts = append(parts, f.Path+"="+Text(v))
		}
	}
	return strings.Join(parts, " ")
}

// FieldOf returns the Field for one field of a struct. Its path is its key.
func FieldOf(sf reflect.StructField) Field {
	return Field{Path: sf.Tag.Get("mapstructure"), Type: sf.Type, index: sf.Index, tag: sf.Tag}
}
