package siege

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// calm returns an outcome that meets all goals.
func calm() Outcome {
	ph := func() Phase {
		return Phase{Seconds: 60, RSS: 100 << 20, Descriptors: 20, Clients: map[string]Latencies{
			"reader":   {Calls: 100, P50: 1, P99: 2, Longest: 3},
			"operator": {Calls: 100, P50: 100, P99: 900, Longest: 950},
		}}
	}
	return Outcome{Before: ph(), During: ph(), After: ph(), Tally: Tally{Opened: 1}}
}

// TestJudge plants one fault of rdmad at a time.
func TestJudge(t *testing.T) {
	slower := func(client string, p99, longest float64) func(*Outcome) {
		return func(o *Outcome) {
			l := o.During.Clients[client]
			l.P99, l.Longest = p99, longest
			o.During.Clients[client] = l
		}
	}
	for _, c := range []struct {
		name  string
		plant func(*Outcome)
		want  string // "" if the goals are met
		short bool   // the short form sees it, too
	}{
		{"nothing", func(*Outcome) {}, "", true},
		{"an error before", func(o *Outcome) { o.Before.Clients["reader"] = Latencies{Calls: 9, Errors: 1, Error: "EOF"} },
			"before: reader has 1 errors in 9 calls, the first: EOF", true},
		{"errors after", func(o *Outcome) { o.After.Clients["reader"] = Latencies{Calls: 9, Errors: 2, Error: "EOF"} },
			"after: reader has 2 errors", true},
		{"a client that hangs", func(o *Outcome) { o.During.Unfinished = "mount has made 1 calls of 3" }, "during: mount has made", true},
		{"RSS at its bound", func(o *Outcome) { o.During.RSS = defaultMemory/10*11 + 64<<20 }, "", true},
		{"RSS over it", func(o *Outcome) { o.During.RSS = defaultMemory/10*11 + 64<<20 + 1 }, "during: RSS", true},
		{"RSS that stays", func(o *Outcome) { o.After.RSS = 2 << 30 }, "after: RSS", true},
		{"descriptors during it", func(o *Outcome) { o.During.Descriptors = 5000 }, "", true},
		{"descriptors that stay", func(o *Outcome) { o.After.Descriptors = 53 }, "after: 53 descriptors, 20 before", true},
		{"a chatty log", func(o *Outcome) { o.During.LogBytes = 61 * 16 << 10 }, "", true},
		{"a flood of log", func(o *Outcome) { o.During.LogBytes = 65 * 16 << 10 }, "bytes logged in 60 s", true},
		{"a breach", func(o *Outcome) { o.Tally.Breaches = []string{"read \"outside\""} }, "breach: read", true},
		{"an attacker that does nothing", func(o *Outcome) { o.Tally.Opened = 0 }, "no connection", true},
		{"p99 twice as long", slower("reader", 4, 4), "", false},
		{"p99 longer than that", slower("reader", 4.1, 5), "during: reader has a p99 of 4.1 ms, 2.0 ms before", false},
		{"p99 100 ms longer", slower("operator", 1000, 999), "during: operator has a p99", false},
		{"a slow status", slower("operator", 900, 1000), "status took up to 1000 ms", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, latencies := range []bool{true, false} {
				o := calm()
				c.plant(&o)
				o.judge(defaultMemory, latencies)
				all := strings.Join(o.Failures, "\n")
				if seen := latencies || c.short; (c.want == "" || !seen) != (all == "") || seen && !strings.Contains(all, c.want) {
					t.Errorf("latencies judged: %v; failures:\n%s\nwant %q", latencies, all, c.want)
				}
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(1000-i)*time.Millisecond)
	}
	got := summarize(all, []error{errors.New("first"), errors.New("second")})
	want := Latencies{Calls: 1000, Errors: 2, Error: "first", P50: 500, P99: 990, Longest: 1000}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := summarize(nil, nil); got != (Latencies{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestPage checks that docs/security.md lists each attack of the program.
func TestPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := FillPage(string(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	if page != string(b) {
		t.Error("docs/security.md is out of date: go run ./interop/cmd/siege page")
	}
}

// TestTable makes a table of a calm outcome and one with failures.
func TestTable(t *testing.T) {
	o := calm()
	bad := calm()
	o.Name, bad.Name = "calm", "bad"
	bad.During.Clients["reader"] = Latencies{Errors: 3, P99: 1234.5}
	bad.During.LogBytes = 5000
	bad.judge(defaultMemory, true)
	r := Report{Started: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC), CPUs: 2, Seconds: 60, Group: true, Outcomes: []Outcome{o, bad}}
	var missing []string
	for _, want := range []string{
		"22 November 2026, 2 processors, 60 s in each phase, attackers in a control group with cpu.idle:",
		"| `calm` | 2 → 2 |", "| 0 | 100 → 100 | 20 → 20 | 0 → 0 | 0 | met |",
		"| `bad` | 2 → 1.23e+03 |", "| 3 | 100 → 100 | 20 → 20 | 0 → 0 | 4 | missed |",
		"1 of 2 attacks meet all goals.",
	} {
		if !strings.Contains(r.table(), want) {
			missing = append(missing, want)
		}
	}
	if missing != nil {
		t.Errorf("%q is not in\n%s", missing, r.table())
	}
}
