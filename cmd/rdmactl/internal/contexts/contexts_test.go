package contexts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/configfile"
)

func TestFileKeepsWhatIsPut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.yaml")
	f, err := Load(name)
	if err != nil || len(f.Contexts) != 0 {
		t.Fatalf("a file that does not exist: %+v, %v", f, err)
	}
	f.Put(Context{Name: "a", Addr: "10.0.0.1:20050", TLS: TLS{Cert: "me.pem", Key: "/k/me.key", ServerName: "nas"}})
	f.Put(Context{Name: "b", Addr: "unix:///run/b"})
	f.Put(Context{Name: "b", Addr: "unix:///run/c"})
	text, err := configfile.EncodeYAML(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.Current != "a" || strings.Join(got.Names(), " ") != "a b" {
		t.Errorf("current %q, names %q", got.Current, got.Names())
	}
	if b, ok := got.Get("b"); !ok || b.Addr != "unix:///run/c" {
		t.Errorf("b is %+v, %v", b, ok)
	}
	a, _ := got.Get("a")
	if abs := a.TLS.Absolute("/etc/x"); abs != (TLS{Cert: "/etc/x/me.pem", Key: "/k/me.key", ServerName: "nas"}) {
		t.Errorf("absolute: %+v", abs)
	}
	if !got.Remove("a") || got.Remove("a") || got.Current != "" {
		t.Errorf("after the removal of the current context: %+v", got)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"contexts: [{name: a, addr: x, token: y}]":           "field token not found",
		"contexts: [{name: a/b, addr: x}]":                   `context 1: "a/b" is no name`,
		"contexts: [{name: a, addr: x}, {name: a, addr: y}]": "context a is in it twice",
		"contexts: [{name: a}]":                              "context a has no addr",
		"contexts: []\n#" + strings.Repeat("x", mostBytes):   "is larger than",
		"contexts: [":  "did not find",
		"current: [a]": "cannot unmarshal",
		"contexts: [{name: \"" + strings.Repeat("x", 65) + "\"}]": "is no name",
	} {
		name := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}
