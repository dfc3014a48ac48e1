package spec

import (
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"strings"
	"time"
)

// Field is a field of a specification, as its declaration says it.
type Field struct {
	// Path is its key, with those of the sections that it is in: limits.idle.
	Path string
	// Type is that of its values.
	Type  reflect.Type
	index []int
	tag   reflect.StructTag
}

// Doc is the field's documentation.
func (f *Field) Doc() string { return f.tag.Get("doc") }

// Default is the value in force when none is given, as text; "" for none.
func (f *Field) Default() string { return f.tag.Get("default") }

// Values are those that a text may have; nil for any.
func (f *Field) Values() []string {
	if v := f.tag.Get("values"); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// Range is the least and the largest value, as text; "" when nothing but the
// type bounds them.
func (f *Field) Range() (low, high string) {
	low, high, _ = strings.Cut(f.tag.Get("range"), "..")
	return low, high
}

// API is the field's path in the messages of the API.
func (f *Field) API() string {
	if p := f.tag.Get("api"); p != "" {
		return p
	}
	return f.Path
}

// Section says whether the field is an optional group of fields, which follow.
func (f *Field) Section() bool { return isSection(f.Type) }

// Items says whether the field is a list of sections.
func (f *Field) Items() bool { return f.Type.Kind() == reflect.Slice && isStruct(f.Type.Elem()) }

// In is the field's value in the struct to which root points. With make,
// sections on the way to it are made; without, a missing section gives an
// invalid value.
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

// isStruct tells groups of fields from values.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[netip.Prefix]()
}

// Fields yields the fields of a struct type in their order, those of groups
// included, but not those of lists.
func Fields(t reflect.Type) iter.Seq[Field] {
	return func(yield func(Field) bool) { fields(t, "", nil, yield) }
}

// Of are the fields of T.
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

// Text is a value as the configuration file and the command line write it; a list has commas.
func Text(v reflect.Value) string {
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

// durationText leaves the zeros of 1h0m0s out.
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

// String is all that was given, as KEY=VALUE.
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

// FieldOf is one field of a struct, whose path is its key.
func FieldOf(sf reflect.StructField) Field {
	return Field{Path: sf.Tag.Get("mapstructure"), Type: sf.Type, index: sf.Index, tag: sf.Tag}
}
