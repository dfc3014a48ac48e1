package main

import (
	"slices"
	"strings"
	"testing"
)

// TestTargets checks that targets finds every fuzz target of the tree. A new
// target has no row yet.
func TestTargets(t *testing.T) {
	names, err := targets("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rpcrdma/FuzzWire", "rpcrdma/conn/FuzzResponder", "verbs/softiwarp/internal/ddp/FuzzDecode"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not found", want)
		}
	}
	page, err := readTable("../../docs/fuzzing.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range page.rows {
		if !slices.Contains(names, name) {
			t.Errorf("docs/fuzzing.md has %s, which is no target", name)
		}
	}
}

func TestPicked(t *testing.T) {
	names := []string{"a/FuzzB", "a/FuzzC", "b/FuzzD"}
	for parts, want := range map[string]string{"": "a/FuzzB a/FuzzC b/FuzzD", "a/": "a/FuzzB a/FuzzC", "FuzzC,b/": "a/FuzzC b/FuzzD", "x": ""} {
		if got := strings.Join(picked(slices.Clone(names), parts), " "); got != want {
			t.Errorf("%q picks %q, want %q", parts, got, want)
		}
	}
}

const page = "# Title\n\n" + begins +
	"| a/FuzzB | 1,234,567 | 1,000 | a panic |\n| a/FuzzC | 5 | 2 |  |\n| **all** | 1,234,572 | | |\n\nMore.\n"

func TestTable(t *testing.T) {
	p, err := parseTable(page)
	if err != nil {
		t.Fatal(err)
	}
	if p.String() != page {
		t.Errorf("comes back as\n%s", p)
	}
	p.add("a/FuzzC", result{executions: 1000, speed: 99.9})
	p.add("b/FuzzD", result{executions: 7, speed: 1})
	want := strings.NewReplacer("| a/FuzzC | 5 | 2 |  |\n", "| a/FuzzC | 1,005 | 99 |  |\n| b/FuzzD | 7 | 1 |  |\n", "1,234,572", "1,235,579").Replace(page)
	if p.String() != want {
		t.Errorf("after two more:\n%s", p)
	}
	for _, bad := range []string{"", begins + "| x |\n", begins + "| x | many | 1 | |\n"} {
		if _, err := parseTable(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestTurns checks the order of targets: those with the fewest executions come
// first, and each runs once before any runs again. A failed target does not run
// again.
func TestTurns(t *testing.T) {
	counts := &table{rows: map[string]row{"a": {executions: 10}, "b": {executions: 5}}}
	q := newTurns([]string{"a", "b", "c"})
	var got []string
	for i := range 7 {
		if i == 4 {
			q.drop("b")
		}
		got = append(got, q.next(counts))
	}
	if want := "c b a c a c a"; strings.Join(got, " ") != want {
		t.Errorf("%q, not %q", got, want)
	}
	q.drop("a")
	q.drop("c")
	if name := q.next(counts); name != "" {
		t.Errorf("%s after all have failed", name)
	}
}

func TestParse(t *testing.T) {
	r := parse([]byte("fuzz: elapsed: 0s, gathering baseline coverage: 0/13 completed\n" +
		"fuzz: elapsed: 3s, execs: 123 (41/sec), new interesting: 0 (total: 13)\n" +
		"fuzz: elapsed: 1m10s, execs: 7000 (0/sec), new interesting: 1 (total: 14)\nPASS\n"))
	if r.executions != 7000 || r.speed != 100 {
		t.Errorf("%d, %v", r.executions, r.speed)
	}
	if r := parse([]byte("no Go files")); r.executions != 0 {
		t.Errorf("%d executions of nothing", r.executions)
	}
}
