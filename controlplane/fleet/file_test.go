package fleet

import (
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func policy(t tester, text string) *Policy {
	t.Helper()
	p, err := ReadPolicy("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadPolicy(t *testing.T) {
	forms := map[string]string{
		"p.yaml": `name: small
selector: ["role in (gateway, edge)", "!lab"]
priority: -3
settings: {inline: {send_max: 2KiB}}
scopes: {"listener/nfs": {credits: {max: 8}}, "peer/192.0.2.0/24": {credits: {weight: 3}}}`,
		"p.json": `{"name": "small", "selector": ["role in (gateway, edge)", "!lab"], "priority": -3, "settings": {"inline": {"send_max": 2048}},
"scopes": {"listener/nfs": {"credits": {"max": 8}}, "peer/192.0.2.0/24": {"credits": {"weight": 3}}}}`,
	}
	for file, text := range forms {
		p, err := ReadPolicy(file, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		v := p.Settings[settings.Scope{}]
		l := p.Settings[nfs]
		if p.Name != "small" || p.Priority != -3 || p.Selector.String() != "role in (gateway, edge), !lab" || len(p.Settings) != 3 ||
			v.Value(live.InlineSendMax) != 2048 || l.Value(live.CreditsMax) != 8 {
			t.Errorf("%s: %+v", file, p)
		}
	}
	p := policy(t, "name: none\nselector: {role: gateway, rack: r1}\nsettings: {}\n")
	if len(p.Settings) != 0 || p.Selector.String() != "role=gateway, rack=r1" {
		t.Errorf("%+v", p)
	}
}

func TestBadPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "p.yaml: name: is missing",
		"name: a b":                              `p.yaml:1: name: "a b" ` + nameProblem,
		"name: a\nselektor: {}":                  "p.yaml:2: selektor: unknown key; known here: name, priority, scopes, selector, settings",
		"name: a\npriority: high":                "p.yaml:2: priority: must be a whole number",
		"name: a\nselector: [{a: b}]":            "p.yaml:2: selector[0]: must be one value, not a list or a mapping",
		"name: a\nselector: gateway":             "p.yaml:2: selector: must be a mapping of keys to values",
		"name: a\nselector: [a b]":               `p.yaml:2: selector[0]: "a b" is not NAME=VALUE, NAME!=VALUE, NAME in (VALUE, …), NAME not in (VALUE, …), NAME or !NAME`,
		"name: a\nselector: {a: [b]}":            "p.yaml:2: selector.a: must be one value, not a list or a mapping",
		"name: a\nsettings: {colour: {}}":        "p.yaml:2: settings.colour: unknown key; known here: credits, ddp, extensions, inline, remote_invalidation",
		"name: a\nscopes: {global: {}}":          "p.yaml:2: scopes.global: global settings belong under settings",
		"name: a\nsettings: {credits: {max: 0}}": "p.yaml:2: settings.credits.max: must be between 1 and 1024 calls (is 0)",
		"name: a\nscopes: {connection/1: {credits: {max: 2}}}":           "p.yaml:2: scopes.connection/1: settings of a connection end with it, and a file outlives it: use the scope of its listener or peer here, or rdmactl settings set --scope connection/1",
		"name: a\nselector: [" + strings.Repeat("a, ", MaxTerms+1) + "]": "p.yaml:2: selector: no more than 16 terms",
	} {
		if p, err := ReadPolicy("p.yaml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %+v\ngot  %v\nwant %s", text, p, err, want)
		}
	}
}

// A policy that comes from etcd instead of a file keeps to the same bounds.
func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Revision){
		"name":       func(r *Revision) { r.Name = "a/b" },
		"revision":   func(r *Revision) { r.Revision = 0 },
		"comment":    func(r *Revision) { r.Comment = strings.Repeat("x", MaxComment+1) },
		"terms":      func(r *Revision) { r.Selector = make(Selector, MaxTerms+1) },
		"term":       func(r *Revision) { r.Selector = Selector{{Label: "a b"}} },
		"connection": func(r *Revision) { r.Settings[settings.Scope{Kind: settings.Connection, Name: "1"}] = live.Values{} },
		"value": func(r *Revision) {
			var v live.Values
			v.Set(live.CreditsMax, 0)
			r.Settings[settings.Scope{}] = v
		},
	} {
		r := &Revision{Policy: *policy(t, "name: a\nsettings: {credits: {max: 9}}"), Revision: 1}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		if change(r); r.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzReadPolicy(f *testing.F) {
	f.Add("name: small\nselector: [\"role in (gateway, edge)\", \"!lab\"]\npriority: 1\nsettings: {inline: {send_max: 2KiB}}")
	f.Add("name: a\nselector: {a: b}\nscopes: {listener/nfs: {credits: {max: 8}}}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadPolicy("p.yaml", []byte(text))
		if err == nil {
			err = p.Check()
			if err != nil {
				t.Errorf("read, then refused: %v", err)
			}
		}
	})
}
