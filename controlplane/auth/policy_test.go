package auth

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"ops-1.example.net", "ops-1.example.net", true},
		{"ops-1.example.net", "ops-1.example.netx", false},
		{"ops-*.example.net", "ops-1.example.net", true},
		{"ops-*.example.net", "ops-.example.net", true},
		{"ops-*.example.net", "ops-1.evil.example.net", false},
		{"ops-*.example.net", "xops-1.example.net", false},
		{"*.example.net", "example.net", false},
		{"*", "alice", true},
		{"*", "alice@example.net", false},
		{"**", "alice@example.net", true},
		{"**", "", true},
		{"spiffe://example.net/ops/*", "spiffe://example.net/ops/a", true},
		{"spiffe://example.net/ops/*", "spiffe://example.net/ops/a/b", false},
		{"spiffe://example.net/ops/**", "spiffe://example.net/ops/a/b", true},
		{"a*b*c", "a1b2b3c", true},
		{"a*b*c", "a1b2b3", false},
		{"*@example.net", "alice@example.net", true},
	} {
		if got := match(c.pattern, c.name); got != c.want {
			t.Errorf("%q for %q: %v", c.pattern, c.name, got)
		}
	}
}

// fixed gives users groups without a database: uid 1000 is in 50 and 60.
func fixed(uid uint32) []uint32 {
	if uid == 1000 {
		return []uint32{50, 60}
	}
	return nil
}

func policy(t *testing.T, r Rules) *Policy {
	t.Helper()
	p, err := NewPolicy(r)
	if err != nil {
		t.Fatal(err)
	}
	p.groupsOf, p.owner = fixed, 999
	return p
}

func TestRolesOfUsers(t *testing.T) {
	viewer := Viewer
	for _, c := range []struct {
		rules    Rules
		uid, gid uint32
		want     Role
	}{
		{Rules{}, 0, 0, Admin},
		{Rules{}, 999, 1, Admin}, // rdmad's own
		{Rules{}, 1000, 1000, None},
		{Rules{Group: "60"}, 1000, 1000, Admin},
		{Rules{Group: "60"}, 1001, 60, Admin}, // by its primary group
		{Rules{Group: "60"}, 1001, 1001, None},
		{Rules{Group: "60", Default: &viewer}, 1001, 1001, Viewer},
		{Rules{Rules: []Rule{{Role: Operator, UIDs: []uint32{1001}}}}, 1001, 1, Operator},
		{Rules{Rules: []Rule{{Role: Operator, Groups: []string{"50"}}}}, 1000, 1, Operator},
		{Rules{Rules: []Rule{{Role: Viewer, UIDs: []uint32{1000}}, {Role: Operator, Groups: []string{"50"}}}}, 1000, 1, Operator},
		{Rules{Rules: []Rule{{Role: None, UIDs: []uint32{1001}}}, Default: &viewer}, 1001, 1, None},
		{Rules{Rules: []Rule{{Role: Operator, Certificates: []string{"**"}}}}, 1001, 1, None},
		{Rules{Default: &viewer}, 0, 0, Admin},
	} {
		if got := policy(t, c.rules).user(c.uid, c.gid); got != c.want {
			t.Errorf("uid %d, gid %d under %+v: %v, want %v", c.uid, c.gid, c.rules, got, c.want)
		}
	}
}

func TestRolesOfCertificates(t *testing.T) {
	viewer := Viewer
	rules := Rules{Rules: []Rule{
		{Role: Viewer, Certificates: []string{"*.example.net"}},
		{Role: Operator, Certificates: []string{"ops.example.net", "ops@example.net"}},
		{Role: None, Certificates: []string{"lost.example.org"}},
		{Role: Admin, UIDs: []uint32{0}},
	}}
	for name, want := range map[string]Role{
		"a.example.net": Viewer, "ops.example.net": Operator, "ops@example.net": Operator, "a.example.org": None, "lost.example.org": None,
	} {
		if got := policy(t, rules).certificate(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	rules.Default = &viewer
	p := policy(t, rules)
	if p.certificate("a.example.org") != Viewer || p.certificate("lost.example.org") != None {
		t.Error("the default is for those that no rule names")
	}
	if p.Anonymous() != Viewer || policy(t, Rules{}).Anonymous() != Admin {
		t.Error("the default is for anonymous clients too")
	}
}

func TestSocketOpenTo(t *testing.T) {
	none, viewer := None, Viewer
	for _, c := range []struct {
		rules Rules
		want  bool
	}{
		{Rules{}, false},
		{Rules{Group: "60", Default: &none}, false},
		{Rules{Rules: []Rule{{Role: Admin, Certificates: []string{"a"}}}}, false},
		{Rules{Rules: []Rule{{Role: Viewer, UIDs: []uint32{7}}}}, true},
		{Rules{Rules: []Rule{{Role: Viewer, Groups: []string{"7"}}}}, true},
		{Rules{Default: &viewer}, true},
	} {
		if got := policy(t, c.rules).OpenToUsers(); got != c.want {
			t.Errorf("%+v: %v", c.rules, got)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	for want, r := range map[string]Rules{
		"group: there is no group nobody-has-this on this machine":           {Group: "nobody-has-this"},
		"roles[1].groups: there is no group nobody-has-this on this machine": {Rules: []Rule{{}, {Groups: []string{"nobody-has-this"}}}},
		`roles[0].certificates: "" is empty`:                                 {Rules: []Rule{{Certificates: []string{""}}}},
		`roles[0].certificates: "*********" has too many wildcards`:          {Rules: []Rule{{Certificates: []string{strings.Repeat("*", 9)}}}},
	} {
		if _, err := NewPolicy(r); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if p, err := NewPolicy(Rules{Group: "root"}); err != nil || p.admins[0] != 0 || p.owner != uint32(os.Geteuid()) {
		t.Errorf("group root: %+v, %v", p, err)
	}
}

func TestRolesAreNamed(t *testing.T) {
	for _, name := range Roles() {
		r, ok := ParseRole(name)
		if !ok || r.String() != name {
			t.Errorf("%s: %v", name, r)
		}
	}
	if _, ok := ParseRole("root"); ok || Role(9).String() != "role 9" {
		t.Error("a role that there isn't")
	}
}

func TestRate(t *testing.T) {
	l := NewLimiter(Rate{PerSecond: 10, Burst: 40})
	now := time.Unix(1000, 0)
	ada, bob, stranger := Identity{Client: "ada", Role: Viewer}, Identity{Client: "bob", Role: Viewer}, Identity{Client: "x"}
	take := func(id Identity) (n int) {
		for l.Allow(id, now).OK {
			n++
		}
		return n
	}
	if a, b, s := take(ada), take(bob), take(stranger); a != 40 || b != 40 || s != 2 {
		t.Errorf("bursts %d, %d, a stranger's %d", a, b, s)
	}
	v := l.Allow(ada, now)
	if v.OK || v.Tell || v.Wait <= 0 || v.Wait > 100*time.Millisecond {
		t.Errorf("%+v", v) // told of in take already
	}
	now = now.Add(v.Wait)
	if v := l.Allow(ada, now); !v.OK {
		t.Errorf("after the wait: %+v", v)
	}
	now = now.Add(time.Second)
	if n := take(ada); n != 10 {
		t.Errorf("%d in a second", n)
	}
}

// TestRateOfRoles: a client with two roles has the rate of each, and no more if it uses them by turns.
func TestRateOfRoles(t *testing.T) {
	l := NewLimiter(Rate{PerSecond: 1, Burst: 40})
	now, n := time.Unix(1000, 0), 0
	for range 1000 {
		for _, role := range []Role{Viewer, Operator} {
			if l.Allow(Identity{Client: "uid 1000", Role: role}, now).OK {
				n++
			}
		}
	}
	if n != 80 {
		t.Errorf("%d requests at once, want 80", n)
	}
}

func TestRateTellsOncePerSecond(t *testing.T) {
	l := NewLimiter(Rate{PerSecond: 1, Burst: 1})
	now := time.Unix(1000, 0)
	told, refused := 0, 0
	for range 1000 {
		if v := l.Allow(Identity{Client: "ada", Role: Admin}, now); v.Tell {
			told++
		} else if !v.OK {
			refused++
		}
		now = now.Add(10 * time.Millisecond)
	}
	if told < 5 || told > 10 || refused < 900 {
		t.Errorf("told %d of %d", told, refused)
	}
}

func TestLimiterIsBounded(t *testing.T) {
	l := NewLimiter(Rate{PerSecond: 1, Burst: 1})
	now := time.Unix(1000, 0)
	busy := Identity{Client: "busy", Role: Viewer}
	for i := range 3 * maxClients {
		l.Allow(Identity{Client: fmt.Sprint(i)}, now)
		if v := l.Allow(busy, now); v.OK != (i == 0) {
			t.Fatalf("the busy client was forgotten after %d others", i)
		}
	}
	if len(l.clients) > maxClients || l.recent.Len() != len(l.clients) {
		t.Errorf("%d clients, %d in order", len(l.clients), l.recent.Len())
	}
	if v := l.Allow(Identity{Client: "busy", Role: Admin}, now); !v.OK {
		t.Error("another role is another client")
	}
}

// TestProblems: all groups that this machine does not have are named, with their keys.
func TestProblems(t *testing.T) {
	r := Rules{Group: "nobody-has-this", Rules: []Rule{
		{Groups: []string{"0", "nor-this", "root"}},
		{Groups: []string{"this-neither"}},
	}}
	var got []string
	for key, err := range r.Problems() {
		got = append(got, key+": "+err.Error())
	}
	want := []string{
		"group: there is no group nobody-has-this on this machine",
		"roles[0].groups: there is no group nor-this on this machine",
		"roles[1].groups: there is no group this-neither on this machine",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
