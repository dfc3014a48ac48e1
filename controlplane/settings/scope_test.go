package settings

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseScope(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "global",
		"global":                        "global",
		"listener/nfs":                  "listener/nfs",
		"connection/17":                 "connection/17",
		"peer/10.0.0.0/8":               "peer/10.0.0.0/8",
		"peer/10.1.2.3":                 "peer/10.1.2.3/32",
		"peer/0.0.0.0/0":                "peer/0.0.0.0/0",
		"peer/2001:db8::1":              "peer/2001:db8::1/128",
		"peer/2001:DB8::/32":            "peer/2001:db8::/32",
		"peer/::ffff:10.1.2.3":          "peer/10.1.2.3/32",
		"peer/::ffff:10.0.0.0/104":      "peer/10.0.0.0/8",
		"peer/::/0":                     "peer/::/0",
		"listener/with.dots-and_dashes": "listener/with.dots-and_dashes",
	} {
		scope, err := ParseScope(in)
		if err != nil || scope.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, scope, err, want)
			continue
		}
		if again, err := ParseScope(scope.String()); err != nil || again != scope {
			t.Errorf("%q: its spelling %s reads as %v, %v", in, scope, again, err)
		}
	}
}

func TestParseScopeRefuses(t *testing.T) {
	for _, in := range []string{
		"globe", "global/x", "listener", "listener/", "listener/a/b", "listener/a b", "listener/a\x00",
		"listener/" + strings.Repeat("x", 65), "connection/", "peer", "peer/", "peer/nfs", "peer/10.0.0.0/33",
		"peer/fe80::1%eth0", "peer/::ffff:0.0.0.0/95", "peer/10.1.2.3/8", "peer/::ffff:10.1.2.3/104", "peers/10.0.0.0/8", "/", "listener/a\nb",
	} {
		scope, err := ParseScope(in)
		if err == nil {
			t.Errorf("%q is read as %s", in, scope)
		} else if !strings.HasPrefix(err.Error(), "scope: ") {
			t.Errorf("%q: the error doesn't name the field: %v", in, err)
		}
	}
}

func TestCovers(t *testing.T) {
	target := Target{Listener: "nfs", Peer: netip.MustParseAddr("::ffff:192.0.2.7"), ID: "4"}
	linkLocal := Target{Listener: "nfs", Peer: netip.MustParseAddr("fe80::7%eth0"), ID: "5"}
	for _, c := range []struct {
		scope  string
		target Target
		want   bool
	}{
		{"global", target, true},
		{"listener/nfs", target, true},
		{"listener/nf", target, false},
		{"peer/192.0.2.0/24", target, true},
		{"peer/192.0.3.0/24", target, false},
		{"peer/::/0", target, false},
		{"peer/fe80::/10", linkLocal, true},
		{"connection/4", target, true},
		{"connection/5", target, false},
	} {
		scope, err := ParseScope(c.scope)
		if err != nil {
			t.Fatal(err)
		}
		if got := scope.Covers(c.target); got != c.want {
			t.Errorf("%s covers %v: %t", c.scope, c.target, got)
		}
	}
}

func FuzzParseScope(f *testing.F) {
	for _, s := range []string{"", "global", "listener/nfs", "peer/10.0.0.0/8", "peer/::1", "connection/1", "peer/fe80::1%x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		scope, err := ParseScope(in)
		if err != nil {
			return
		}
		again, err := ParseScope(scope.String())
		if err != nil || again != scope {
			t.Fatalf("%q is %s, which reads as %v, %v", in, scope, again, err)
		}
	})
}
