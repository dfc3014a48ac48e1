package fleet

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTermsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"role=gateway": "role=gateway", " role = gateway ": "role=gateway", "role in (gateway, edge)": "role in (gateway, edge)",
		"role in (gateway)": "role=gateway", "role not in (lab,old)": "role not in (lab, old)", "role != lab": "role!=lab",
		"lab": "lab", "!lab": "!lab", "! lab": "!lab", "rack=": "rack=",
	} {
		term, err := ParseTerm(text)
		if err != nil || term.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, term, err, want)
		}
	}
	for _, text := range []string{
		"", "!", "=", "a b", "role in gateway", "role in (a", "role notin (a)", "in (a)", "role=a b", "-a", "a in (x, y z)",
		"a=" + strings.Repeat("x", 64), strings.Repeat("x", 64), "a in (" + strings.Repeat("x,", 64) + "x)",
	} {
		if term, err := ParseTerm(text); err == nil {
			t.Errorf("%q is taken, as %q", text, term)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		labels, term string
		want         bool
	}{
		{"role=gateway", "role=gateway", true},
		{"role=edge", "role=gateway", false},
		{"", "role=gateway", false},
		{"", "role!=gateway", true},
		{"role=edge", "role!=gateway", true},
		{"role=gateway", "role != gateway", false},
		{"role=edge", "role in (gateway, edge)", true},
		{"role=lab", "role not in (gateway, edge)", true},
		{"role=edge", "role not in (gateway, edge)", false},
		{"lab=", "lab", true},
		{"", "lab", false},
		{"lab=1", "!lab", false},
		{"", "!lab", true},
	} {
		labels, err := ParseLabels(c.labels)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Selector{term(t, c.term)}).Matches(labels); got != c.want {
			t.Errorf("%q on %q: %v", c.term, c.labels, got)
		}
	}
}

func term(t tester, text string) Term {
	t.Helper()
	out, err := ParseTerm(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tester is a test, whether a property or a plain one.
type tester interface {
	Helper()
	Fatal(args ...any)
}

// values that terms name. A label has one of them, another one, or is missing.
var values = []string{"x", "y", "z"}

var everyLabels = func() (all []Labels) {
	for _, a := range append(values, "other", "-") {
		for _, b := range append(values, "other", "-") {
			l := Labels{"a": a, "b": b}
			for name, value := range l {
				if value == "-" {
					delete(l, name)
				}
			}
			all = append(all, l)
		}
	}
	return all
}()

func drawSelector(t *rapid.T) (s Selector) {
	for range rapid.IntRange(0, 4).Draw(t, "terms") {
		one := Term{Label: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "label"), Op: Op(rapid.IntRange(0, 3).Draw(t, "op"))}
		if one.Op <= NotIn {
			one.Values = rapid.SliceOfN(rapid.SampledFrom(values), 1, 3).Draw(t, "values")
		}
		s = append(s, one)
	}
	return s
}

// Two selectors overlap exactly when there are labels that both select.
func TestOverlapsIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSelector(t), drawSelector(t)
		want := false
		for _, l := range everyLabels {
			want = want || a.Matches(l) && b.Matches(l)
		}
		if got := a.Overlaps(b); got != want {
			t.Fatalf("%q and %q: %v, want %v", a, b, got, want)
		}
	})
}

// Every term is read back as it was written.
func TestTermsSurviveTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSelector(t)
		for _, one := range s {
			again := term(t, one.String())
			for _, l := range everyLabels {
				if one.matches(l) != again.matches(l) {
					t.Fatalf("%q on %q", one, l)
				}
			}
		}
	})
}

func TestLabels(t *testing.T) {
	for _, text := range []string{"", "a=1", "a=1,b=", "rack=r1,role=gateway"} {
		l, err := ParseLabels(text)
		if err != nil || l.String() != text {
			t.Errorf("%q: %q, %v", text, l, err)
		}
	}
	for _, text := range []string{"a", "a=1,a=2", "=1", "a=b c", "a=1,", "a/b=1"} {
		if l, err := ParseLabels(text); err == nil {
			t.Errorf("%q is taken, as %q", text, l)
		}
	}
}
