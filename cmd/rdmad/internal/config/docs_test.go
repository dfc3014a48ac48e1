package config

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/spec"
)

var update = flag.Bool("update", false, "write the tables of keys into the documentation")

// TestReference: the tables of keys in the documentation are those of the types.
// With -update they are written.
func TestReference(t *testing.T) {
	for file, tables := range map[string]map[string]reflect.Type{
		"configuration.md": {"all": reflect.TypeFor[Config](), "roles": reflect.TypeFor[Role]()},
		"listeners.md": {
			"listener": reflect.TypeFor[spec.Listener](), "connector": reflect.TypeFor[spec.Connector](),
			"nfs": reflect.TypeFor[spec.NFS](), "clients": reflect.TypeFor[spec.ExportClient](), "forward": reflect.TypeFor[spec.Forward](),
		},
	} {
		path := "../../../../docs/" + file
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for name, typ := range tables {
			begin, end := "<!-- keys: "+name+" -->\n", "<!-- end of keys -->"
			before, rest, ok := strings.Cut(text, begin)
			got, after, ok2 := strings.Cut(rest, end)
			if !ok || !ok2 {
				t.Fatalf("%s has no place for the keys of %s", file, name)
			}
			if want := reference(typ); got != want {
				if !*update {
					t.Errorf("%s is not up to date: run make generate", file)
				}
				text = before + begin + want + end + after
			}
		}
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// reference returns a table of the keys of a type for the documentation. It omits the live
// settings, and lists of sections that have no documentation of their own.
func reference(t reflect.Type) string {
	var out strings.Builder
	out.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for k := range keys(t) {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", k.name, k.value, k.initial, k.meaning)
	}
	return out.String()
}

// key is a key for the documentation.
type key struct{ name, value, initial, meaning string }

// keys yields the keys of a type, without those of lists, of the live settings and the one that
// is always refused.
func keys(t reflect.Type) iter.Seq[key] {
	return func(yield func(key) bool) {
		for f := range spec.Fields(t) {
			if f.Section() || f.Items() && f.Doc() == "" || f.Path == configfile.SettingsKey || f.Path == configfile.ScopesKey || f.Path == "limits."+spec.NoLimit {
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
		return new(Config).defaults()[key]
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
