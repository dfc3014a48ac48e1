package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/spec"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// kinds has a key of each kind of value, with the values that the layers give.
var kinds = []struct{ key, inFile, inEnv, inFlag string }{
	{"control.listen", `"127.0.0.1:1"`, "127.0.0.1:2", "127.0.0.1:3"},
	{"control.insecure", "true", "off", "on"},
	{"limits.connections", "100", "200", "300"},
	{"limits.memory", `"64MiB"`, "134217728", "1GiB"},
	{"limits.tcp_idle", `"1m"`, "120s", "3m"},
	{"control.rate.burst", "1", "2", "3"},
	{"providers.rdmacore.busy_poll", `"1us"`, "2us", "3us"},
	{"settings.inline.send_max", "2048", "4096", "8192"},
	{"settings.extensions.v2", `"off"`, "on", "required"},
	{"control.roles", `[{"role": "viewer", "uids": [1]}]`, "[{role: viewer, uids: [2]}]", `[{"role": "viewer", "uids": [3]}]`},
	{"scopes", `{"peer/192.0.2.7": {"credits": {"weight": 2}}}`, "{peer/192.0.2.7: {credits: {weight: 3}}}", `{"peer/2001:db8::1/128": {"credits": {"max": 9}}}`},
	{"services", `[{"name": "a", "echo": {}}]`, "[{name: b, echo: {}}]", "[{name: c, echo: {}}]"},
	{"services", `[{"name": "a", "nfs": {"path": "x"}}]`, "[{name: b, forward: {address: 'h:1', call_timeout: 5s}}]", "[{name: c, echo: {}}]"},
}

// write puts one key into a file of a format.
func write(t *testing.T, format, key, value string) string {
	t.Helper()
	text := value
	parts := strings.Split(key, ".")
	if format == ".toml" {
		// TOML writes tables of one line with = for JSON's colon.
		text = strings.Join(parts, ".") + " = " + strings.ReplaceAll(value, `":`, `" =`) + "\n"
	} else {
		for _, part := range slices.Backward(parts) {
			text = `{"` + part + `": ` + text + "}"
		}
	}
	if key == "control.rate.burst" {
		text = strings.Replace(text, `{"burst"`, `{"requests_per_second": 9, "burst"`, 1)
		if format == ".toml" {
			text += "control.rate.requests_per_second = 9\n"
		}
	}
	file := filepath.Join(t.TempDir(), "rdmad"+format)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// at returns the effective value of a key.
func at(t *testing.T, c *Config, key string) any {
	t.Helper()
	f, ok := find(key)
	if !ok {
		t.Fatalf("no key %s", key)
	}
	if name, ok := strings.CutPrefix(key, configfile.SettingsKey+"."); ok {
		k, _ := live.ParseKey(name)
		values := c.Settings.Values()
		return values.Value(k)
	}
	v := f.In(reflect.ValueOf(c), false)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return v.Interface()
}

// TestPrecedence: a flag overrides the environment, which overrides the file, which overrides
// the default, for every kind of value in every format.
func TestPrecedence(t *testing.T) {
	for _, format := range []string{".yaml", ".toml", ".json"} {
		for _, k := range kinds {
			t.Run(k.key+format, func(t *testing.T) {
				file, env := write(t, format, k.key, k.inFile), Variable(k.key)
				load := func(want string, o Options) any {
					t.Helper()
					c, err := Load(file, o)
					if err != nil {
						t.Fatal(err)
					}
					if got := c.Origins.Of(k.key).String(); got != want {
						t.Errorf("from %s, want %s", got, want)
					}
					return at(t, c, k.key)
				}
				want := func(text string) any {
					t.Helper()
					only, err := Load("", Options{Set: append([]string{"control.rate.requests_per_second=9", "control.rate.burst=9"}, k.key+"="+text)})
					if err != nil {
						t.Fatal(err)
					}
					return at(t, only, k.key)
				}
				inFile, inEnv, inFlag := strings.Trim(k.inFile, `"`), k.inEnv, k.inFlag
				if got := load(file+":1", Options{}); !reflect.DeepEqual(got, want(inFile)) {
					t.Errorf("of the file: %v", got)
				}
				t.Setenv(env, inEnv)
				if got := load(env, Options{}); !reflect.DeepEqual(got, want(inEnv)) {
					t.Errorf("of the environment: %v", got)
				}
				if got := load("--set "+k.key, Options{Set: []string{k.key + "=" + inFlag}}); !reflect.DeepEqual(got, want(inFlag)) {
					t.Errorf("of the flag: %v", got)
				}
				t.Setenv(env, "")
				if got := load(file+":1", Options{}); !reflect.DeepEqual(got, want(inFile)) {
					t.Errorf("with an empty variable: %v", got)
				}
			})
		}
	}
}

const sameInYAML = `control:
  listen: "127.0.0.1:1"
  roles:
    - {role: viewer, uids: [1, 2]}
limits:
  memory: 64MiB
  tcp_idle: 90s
services:
  - name: up
    forward: {address: "h:1", dial_timeout: 1s, max_record: 1MiB}
  - {name: e, echo: {}}
connectors:
  - name: out
    listen: "127.0.0.1:2"
    provider: softiwarp
    target: "h:3"
    limits: {memory: 32MiB, connections: 5}
    allow: [192.0.2.0/24]
settings:
  inline: {send_max: 8192}
scopes:
  listener/out: {inline: {send_max: 8KiB}, extensions: {ccp: on}}
  peer/2001:db8::/32:
    credits: {weight: 3}
`

const sameInTOML = `control.listen = "127.0.0.1:1"
[[control.roles]]
role = "viewer"
uids = [1, 2]
[limits]
memory = "64MiB"
tcp_idle = '90s'
[[services]]
name = "up"
[services.forward]
address = "h:1"
dial_timeout = "1s"
max_record = 1_048_576
[[services]]
name = "e"
echo = {}
[[connectors]]
name = "out"
listen = "127.0.0.1:2"
provider = "softiwarp"
target = "h:3"
limits = {memory = "32MiB", connections = 5}
allow = [
  "192.0.2.0/24",
]
[settings]
inline.send_max = 8192
[scopes."listener/out"]
inline = {send_max = "8KiB"}
extensions.ccp = true
[scopes."peer/2001:db8::/32".credits]
weight = 3
`

const sameInJSON = `{
  "control": {"listen": "127.0.0.1:1", "roles": [{"role": "viewer", "uids": [1, 2]}]},
  "limits": {"memory": 67108864, "tcp_idle": "90s"},
  "services": [
    {"name": "up", "forward": {"address": "h:1", "dial_timeout": "1s", "max_record": "1MiB"}},
    {"name": "e", "echo": {}}
  ],
  "connectors": [{"name": "out", "listen": "127.0.0.1:2", "provider": "softiwarp", "target": "h:3",
	"limits": {"memory": "32MiB", "connections": 5}, "allow": ["192.0.2.0/24"]}],
  "settings": {"inline": {"send_max": 8192}},
  "scopes": {
    "listener/out": {"inline": {"send_max": "8KiB"}, "extensions": {"ccp": true}},
    "peer/2001:db8::/32": {"credits": {"weight": 3}}
  }
}
`

// TestFormats: one configuration in three formats is the same, and each value
// has the line of its key.
func TestFormats(t *testing.T) {
	var first *Config
	for _, f := range []struct {
		name, text string
		lines      map[string]int
	}{
		{"f.yaml", sameInYAML, map[string]int{"control.roles[0].role": 4, "services[0].forward.max_record": 10, "connectors[0].limits.memory": 17, "settings.inline.send_max": 20, "scopes.listener/out.extensions.ccp": 22, "scopes.peer/2001:db8::/32.credits.weight": 24}},
		{"f.toml", sameInTOML, map[string]int{"control.roles[0].role": 3, "services[0].forward.max_record": 13, "connectors[0].limits.memory": 22, "settings.inline.send_max": 27, "scopes.listener/out.extensions.ccp": 30, "scopes.peer/2001:db8::/32.credits.weight": 32}},
		{"f.json", sameInJSON, map[string]int{"control.roles[0].role": 2, "services[0].forward.max_record": 5, "connectors[0].limits.memory": 9, "settings.inline.send_max": 10, "scopes.listener/out.extensions.ccp": 12, "scopes.peer/2001:db8::/32.credits.weight": 13}},
	} {
		c, err := Parse(f.name, []byte(f.text), options)
		if err != nil {
			t.Fatal(err)
		}
		for key, line := range f.lines {
			if got := c.Origins.Of(key); got != (Origin{File: f.name, Line: line}) {
				t.Errorf("%s: %s is of %v, want line %d", f.name, key, got, line)
			}
		}
		c.File, c.Origins = "", nil
		if first == nil {
			first = c
		}
		if !reflect.DeepEqual(c, first) {
			t.Errorf("%s gives\n%+v, want\n%+v", f.name, c, first)
		}
	}
}

// TestBadFormats: errors have a line in TOML and JSON, too.
func TestBadFormats(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"f.toml", "[limits]\nmemory = \n", "f.toml:2: not TOML: "},
		{"f.toml", "a = 1\n[limits]\nconnections = \"many\"\n", "f.toml:1: a: unknown key; "},
		{"f.toml", "[limits]\nconnections = \"many\"\n", `f.toml:2: limits.connections: must be a whole number, not "many"`},
		{"f.toml", "[limits]\nconnections = 1\nconnections = 2\n", "f.toml: not TOML: key connections is already defined"},
		{"f.toml", "[[services]]\nname = \"e\"\n[[services]]\nname = \"e\"\necho = {}\n", `f.toml:1: services[0]: service "e" needs exactly one`},
		{"f.json", "{\n\"limits\": {\n}", "f.json:3: not JSON: "},
		{"f.json", "limits: {}", "f.json:1: not JSON: "},
		{"f.json", "{\"limits\":\n{\"connections\": 0}}", "f.json:2: limits.connections: 0 is out of range 1..65536"},
	} {
		_, err := Parse(c.file, []byte(c.text), options)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestNotYAML: the error of a value that is not YAML says what the key holds.
func TestNotYAML(t *testing.T) {
	for key, what := range map[string]string{"scopes": "a mapping", "listeners": "a list"} {
		t.Run(key, func(t *testing.T) {
			t.Setenv(Variable(key), "{a: [")
			want := Variable(key) + ": " + key + ": is not " + what + " in YAML or JSON"
			if _, err := Load("", Options{}); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// TestNotUTF8: values of the command line and the environment are text in UTF-8, as those of the file.
func TestNotUTF8(t *testing.T) {
	services := "[{name: a, nfs: {path: /srv}}]"
	for name, c := range map[string]struct {
		options Options
		env     string
		want    string
	}{
		"--export":    {Options{Export: "/srv/\xff"}, "", "--export: is not text in UTF-8"},
		"--set":       {Options{Set: []string{"state.path=/srv/\xff"}}, "", "--set state.path: state.path: is not text in UTF-8"},
		"environment": {Options{}, "/srv/\xff", "RDMAD_STATE_PATH: state.path: is not text in UTF-8"},
	} {
		_, err := load("", nil, c.options, func(name string) (string, bool) {
			switch name {
			case Variable("services"):
				return services, true
			case Variable("state.path"):
				return c.env, c.env != ""
			}
			return "", false
		})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestVariables: no two keys share an environment variable, and all defaults and
// ranges can be read.
func TestVariables(t *testing.T) {
	seen := map[string]string{}
	for _, name := range FlagVariables {
		seen[name] = "a flag"
	}
	for _, key := range Keys() {
		if other := seen[Variable(key)]; other != "" {
			t.Errorf("%s is of %s and %s", Variable(key), key, other)
		}
		seen[Variable(key)] = key
	}
	for f := range spec.Of[Config]() {
		if f.Doc() == "" && !f.Section() && !f.Items() && f.Path != configfile.SettingsKey && f.Path != configfile.ScopesKey {
			t.Errorf("%s has no documentation", f.Path)
		}
		for _, text := range []string{f.Default(), first(f.Range())} {
			if text == "" {
				continue
			}
			v, err := spec.Parse(f.Type, text)
			if err != nil {
				t.Errorf("%s: %v", f.Path, err)
			} else if problem := f.Problem(v); problem != "" {
				t.Errorf("%s: %s", f.Path, problem)
			}
		}
	}
}

func first(low, _ string) string { return low }

// TestPlaneDefaults: every limit at the top level has a default that check can show, except
// limits without a default.
func TestPlaneDefaults(t *testing.T) {
	for _, v := range Default("").Values() {
		if v.Value == "0" || v.From != (Origin{}) {
			t.Errorf("%s is %q, from %s", v.Key, v.Value, v.From)
		}
	}
}

// TestDefaultsOfPorts: rdmad's own ports and the rate of requests have defaults, too. Some depend on other limits.
func TestDefaultsOfPorts(t *testing.T) {
	defaults := map[string]string{
		"control.rate.requests_per_second": "200 default", "control.rate.burst": "400 default",
		"limits.control.connections": "256 default", "limits.control.connections_per_peer": "64 default",
		"limits.control.reserved": "32 default", "limits.control.idle": "5m default",
		"limits.metrics.connections": "64 default", "limits.metrics.connections_per_peer": "16 default", "limits.metrics.idle": "1m30s default",
	}
	given := maps.Clone(defaults)
	maps.Copy(given, map[string]string{
		"control.rate.requests_per_second": "9 f.yaml:1", "control.rate.burst": "10 f.yaml:1",
		"limits.control.connections": "100 f.yaml:2", "limits.control.connections_per_peer": "25 default", "limits.control.reserved": "25 default",
		"limits.metrics.connections_per_peer": "7 f.yaml:2",
	})
	for text, want := range map[string]map[string]string{
		"": defaults,
		"control: {rate: {requests_per_second: 9, burst: 10}}\nlimits: {control: {connections: 100}, metrics: {connections_per_peer: 7}}\n": given,
	} {
		c, err := Parse("f.yaml", []byte(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, v := range c.Values() {
			if _, about := want[v.Key]; about || strings.HasPrefix(v.Key, "limits.metrics.") {
				got[v.Key] = v.Value + " " + v.From.String()
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestBlankKeysHaveDefaults: a key without a value counts as not set, also where values and their
// origins are shown.
func TestBlankKeysHaveDefaults(t *testing.T) {
	const text = "metrics:\n  listen:\nstate: {path: null}\nlimits:\n  connections: ~\n  tcp_idle:\n  handshakes:\n"
	c, err := Parse("f.yaml", []byte(text), Options{Set: []string{"limits.handshakes=3"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"metrics.listen": "127.0.0.1:20051 default", "state.path": "./rdmad.state default", "limits.connections": "4096 default",
		"limits.tcp_idle": "6m default", "limits.handshakes": "3 --set limits.handshakes",
	}
	for _, v := range c.Values() {
		if got := v.Value + " " + v.From.String(); want[v.Key] != "" && got != want[v.Key] {
			t.Errorf("%s: %s, want %s", v.Key, got, want[v.Key])
		}
		delete(want, v.Key)
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
}
