package spec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Delta has the fields in which a specification differs from the one of the configuration
// file: the path of each, with its value as Encode returns it. nil means that it is not given.
type Delta map[string]any

// Changes are the changes that operators made to the configuration file's elements and limits.
// Elements are known by name.
type Changes struct {
	Services   map[string]Delta `mapstructure:"services"`
	Listeners  map[string]Delta `mapstructure:"listeners"`
	Connectors map[string]Delta `mapstructure:"connectors"`
	Limits     Delta            `mapstructure:"limits"`
	Removed    Removed          `mapstructure:"removed"`
}

// Removed has the names of elements of the configuration file that imports took out of service.
type Removed struct {
	Services   []string `mapstructure:"services"`
	Listeners  []string `mapstructure:"listeners"`
	Connectors []string `mapstructure:"connectors"`
}

// None reports whether nothing was changed.
func (c *Changes) None() bool {
	return len(c.Services)+len(c.Listeners)+len(c.Connectors)+len(c.Limits)+
		len(c.Removed.Services)+len(c.Removed.Listeners)+len(c.Removed.Connectors) == 0
}

// Difference returns what must change in one specification to make it another. Both are
// pointers to the same type.
func Difference(from, to any) Delta {
	d := Delta{}
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for f := range Fields(a.Type().Elem()) {
		x, y := f.In(a, false), f.In(b, false)
		switch {
		case f.Section() || !x.IsValid() || !y.IsValid() || reflect.DeepEqual(x.Interface(), y.Interface()):
		case y.IsZero() || y.Kind() == reflect.Slice && y.Len() == 0:
			if !x.IsZero() {
				d[f.Path] = nil
			}
		default:
			d[f.Path] = encode(y)
		}
	}
	return d
}

// Apply changes a specification, to which to points. It leaves out fields of sections that the
// specification does not have. The error means that the delta is damaged.
func (d Delta) Apply(to any) error {
	root := reflect.ValueOf(to)
	known := 0
	for f := range Fields(root.Type().Elem()) {
		value, changed := d[f.Path]
		if !changed || f.Section() {
			continue
		}
		known++
		field := f.In(root, false)
		if !field.IsValid() {
			continue
		}
		field.SetZero()
		if value == nil {
			continue
		}
		if err := Decode(nested(f.Path, value), to); err != nil {
			return fmt.Errorf("%s: %s", f.Path, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	if known < len(d) {
		return fmt.Errorf("has unknown fields among %s", strings.Join(slices.Sorted(maps.Keys(d)), ", "))
	}
	return nil
}

// nested returns the maps in which a value is at a path.
func nested(path string, value any) map[string]any {
	key, rest, more := strings.Cut(path, ".")
	if more {
		value = nested(rest, value)
	}
	return map[string]any{key: value}
}

// Copy copies the wanted fields from one specification to another. Both are pointers to the
// same type. Fields of sections that the target does not have are left out.
func Copy(to, from any, wanted func(*Field) bool) {
	a, b := reflect.ValueOf(to), reflect.ValueOf(from)
	for f := range Fields(a.Type().Elem()) {
		x, y := f.In(a, false), f.In(b, false)
		switch {
		case f.Section() || !x.IsValid() || !wanted(&f):
		case !y.IsValid() || y.Kind() == reflect.Slice && y.Len() == 0:
			x.SetZero()
		default:
			x.Set(y)
		}
	}
}
