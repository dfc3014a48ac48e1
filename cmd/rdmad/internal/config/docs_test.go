package config

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

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
			if want := Reference(typ); got != want {
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
