package configfile

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/settings/settingstest"
)

func drawValues(t *rapid.T) (v live.Values) {
	for k := range live.NumKeys {
		if rapid.Bool().Draw(t, "given") {
			v.Set(k, rapid.SampledFrom(settingstest.Samples(k)).Draw(t, k.String()))
		}
	}
	return v
}

// TestWrittenIsRead: what is written in any format is read as it was.
func TestWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Contents{Values: drawValues(t), Scopes: make(map[settings.Scope]live.Values)}
		for _, name := range []string{"listener/Nfs.1", "peer/192.0.2.0/24", "peer/2001:db8::/32", "peer/192.0.2.7/32"} {
			scope, err := settings.FileScope(name)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, name) {
				c.Scopes[scope] = drawValues(t)
			}
		}
		for _, format := range []string{YAML, TOML, JSON} {
			text, err := c.Write(format)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Read("f."+format, text)
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			if got.Values != c.Values || !reflect.DeepEqual(got.Scopes, c.Scopes) {
				t.Fatalf("%+v, want %+v, from\n%s", got, c, text)
			}
		}
	})
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "f.yaml: has neither settings nor scopes",
		"base: {inline: {send_max: 9}}":  "f.yaml:1: base.inline.send_max: must be between",
		"[1]":                            "f.yaml:1: must be a mapping",
		"scopes: [1]":                    "f.yaml:1: scopes[0]: must be a mapping",
		"scopes:\n - {scope: nfs}":       "f.yaml:2: scopes[0].scope: must be listener/NAME or peer/CIDR",
		"scopes:\n - {scop: global}":     "f.yaml:2: scopes[0].scop: unknown key; known here: scope, settings",
		"settings: {a: {b: 1}}":          "f.yaml:1: settings.a: unknown key",
		"settings: &a {inline: }\nx: *a": "",
		"settings:\nscopes:":             "",
	} {
		_, err := Read("f.yaml", []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzRead: whatever a file says, it is read or refused line by line.
func FuzzRead(f *testing.F) {
	f.Add("settings: {inline: {send_max: 8KiB}}\nscopes: {listener/nfs: {credits: {max: 9}}}", 0)
	f.Add("scopes: [{scope: global, settings: {credits: {policy: ADAPTIVE}}}]\nbase: {extensions: {v2: true, v2_required: true}}", 0)
	f.Add("[scopes.\"peer/192.0.2.0/24\".credits]\nweight = 3", 1)
	f.Fuzz(func(t *testing.T, text string, format int) {
		name := "f." + []string{YAML, TOML, JSON}[uint(format)%3]
		c, err := Read(name, []byte(text))
		if err != nil {
			return
		}
		if err := c.Values.Check(); err != nil {
			t.Error(err)
		}
	})
}

// TestEscapesOfJSON: a JSON file has every escape that JSON has, not only those of YAML.
func TestEscapesOfJSON(t *testing.T) {
	const text = `{"a": "\/srv\/\ud83d\uDE00\\/\"\u00e9\n\\ud83d\\ude00"}`
	root, err := Parse("f.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := root.Content[1].Value, "/srv/\U0001F600\\/\"\u00e9\n\\ud83d\\ude00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := Parse("f.yaml", []byte(text)); err == nil {
		t.Error("YAML has the escapes of JSON")
	}
}
