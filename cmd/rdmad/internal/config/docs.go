package config

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Reference returns a table of the keys of a type for the documentation. It omits the live
// settings, and lists of sections that have no documentation of their own.
func Reference(t reflect.Type) string {
	var out strings.Builder
	out.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for k := range keys(t) {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", k.name, k.value, k.initial, k.meaning)
	}
	return out.String()
}

// key is a key for the documentation.
type key struct{ name, value, initial, meaning string }

// keys yields the keys of a type, without those of lists and of the live settings.
func keys(t reflect.Type) iter.Seq[key] {
	return func(yield func(key) bool) {
		for f := range spec.Fields(t) {
			if f.Section() || f.Items() && f.Doc() == "" || f.Path == configfile.SettingsKey {
				continue
			}
			if !yield(key{f.Path, valueText(&f), cmp.Or(f.Default(), planeDefault(t, f.Path)), f.Doc()}) {
				return
			}
		}
	}
}

func planeDefault(t reflect.Type, key string) string {
	if t == reflect.TypeFor[Config]() {
		return planeDefaults[key]
	}
	return ""
}

// valueText describes the values of a field in short.
func valueText(f *spec.Field) string {
	if low, high := f.Range(); low != "" {
		return low + ".." + high
	}
	if all := f.Values(); all != nil {
		return strings.Join(all, ", ")
	}
	if f.Type.Kind() == reflect.Slice {
		return "list"
	}
	switch name := spec.Expected(f.Type).Name; {
	case name == "on or off":
		return name
	case strings.HasPrefix(name, "a time"):
		return "time"
	case name == "a whole number":
		return "number"
	}
	return "text"
}
