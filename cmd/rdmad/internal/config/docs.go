package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// Reference is a table of the keys of a type for the documentation, without those of
// lists and of the live settings.
func Reference(t reflect.Type) string {
	var out strings.Builder
	out.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for f := range spec.Fields(t) {
		if f.Section() || f.Items() || f.Path == settingsKey {
			continue
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", f.Path, valueText(&f), cmp.Or(f.Default(), planeDefault(t, f.Path)), f.Doc())
	}
	return out.String()
}

func planeDefault(t reflect.Type, key string) string {
	if t == reflect.TypeFor[Config]() {
		return planeDefaults[key]
	}
	return ""
}

// valueText is what a field may have, in short.
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
