package settings

import (
	"errors"
	"strings"
	"testing"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// scoped is a configuration file that says something at a scope, in line 7.
func scoped(t *testing.T, global Values, scope string, v Values) FileLayer {
	t.Helper()
	said := FileValues{Values: v}
	for _, k := range v.Keys().Keys() {
		said.Lines[k] = 7
	}
	return FileLayer{Name: "rdmad.yaml", Values: global, Scopes: map[Scope]FileValues{scopeOf(t, scope): said}}
}

// TestFileBelowOperators: at each scope what operators set stands over what the
// file gives, and a narrower scope of the file over a wider one of operators.
func TestFileBelowOperators(t *testing.T) {
	for _, scope := range []string{"listener/nfs", "peer/0.0.0.0/0"} {
		s, err := initial(t).WithFile(scoped(t, Values{}, scope, set(live.CreditsMax, 30)))
		if err != nil {
			t.Fatal(err)
		}
		in := func(want, origin string) {
			t.Helper()
			e := s.At(Scope{Kind: Connection}, peer)
			if got := e.Values.Format(live.CreditsMax); got != want || strings.TrimSpace(e.Origins[live.CreditsMax].Source+" "+e.Origins[live.CreditsMax].Detail) != origin {
				t.Errorf("%s: %s from %+v, want %s from %s", scope, got, e.Origins[live.CreditsMax], want, origin)
			}
		}
		in("30", "config rdmad.yaml:7")
		s = apply(t, s, "global", set(live.CreditsMax, 20))
		in("30", "config rdmad.yaml:7")
		s = apply(t, s, scope, set(live.CreditsMax, 10))
		in("10", scope)
		if all := s.Explain(live.CreditsMax, Scope{Kind: Connection}, peer); len(all) != 4 || all[2].Detail != "rdmad.yaml:7" || !all[3].Wins {
			t.Errorf("%+v", all)
		}
		if s, err = s.WithFile(FileLayer{}); err != nil {
			t.Fatal(err)
		}
		in("10", scope)
	}
}

func TestFileScopes(t *testing.T) {
	for name, want := range map[string]string{
		"listener/nfs":             "",
		"peer/192.0.2.0/24":        "",
		"peer/192.0.2.7":           "",
		"peer/2001:db8::/32":       "",
		"global":                   "belong under settings",
		"":                         "belong under settings",
		"connection/7":             "end with it",
		"peer/192.0.2.7/24":        "write peer/192.0.2.0/24",
		"peer/300.1.1.1":           "must be listener/NAME or peer/CIDR",
		"listner/nfs":              "must be listener/NAME or peer/CIDR",
		"peer/::ffff:192.0.2.0/90": "must be listener/NAME or peer/CIDR", // neither of IPv4 nor of IPv6
	} {
		scope, err := FileScope(name)
		switch {
		case want == "" && (err != nil || scope.Kind == Global):
			t.Errorf("%s: %v, %v", name, scope, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestFileIsCheckedWhole: every value of a file that does not go together with others
// is named, with its scope.
func TestFileIsCheckedWhole(t *testing.T) {
	f := scoped(t, set(live.CreditsMax, 20, live.ExtensionXmit, 1), "listener/nfs", set(live.CreditsMin, 30))
	f.Scopes[scopeOf(t, "peer/10.0.0.0/8")] = FileValues{Values: set(live.CreditsMin, 40)}
	_, err := initial(t).WithFile(f)
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, v := range invalid.Violations {
		found[v.Scope+" "+v.Field] = true
	}
	for _, want := range []string{"listener/nfs credits.min", "peer/10.0.0.0/8 credits.min", " extensions.xmit"} {
		if !found[want] {
			t.Errorf("no violation of %q in %v", want, invalid.Violations)
		}
	}
	f = scoped(t, Values{}, "connection/1", set(live.CreditsMin, 3))
	if _, err := initial(t).WithFile(f); err == nil {
		t.Error("a file has a connection's scope")
	}
}

// TestLoadLeavesTheFile: a dump loaded where it was made does not copy the file's
// values into the operators' scopes.
func TestLoadLeavesTheFile(t *testing.T) {
	s, err := initial(t).WithFile(scoped(t, Values{}, "listener/nfs", set(live.CreditsMax, 30, live.CreditsMin, 3)))
	if err != nil {
		t.Fatal(err)
	}
	s = apply(t, s, "listener/nfs", set(live.CreditsMin, 4))
	back, err := s.Load(new(s.Dump()))
	if err != nil {
		t.Fatal(err)
	}
	if !same(s, back) {
		t.Errorf("%+v became %+v", s.Layers(), back.Layers())
	}
}
