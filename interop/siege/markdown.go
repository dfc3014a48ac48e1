package siege

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/interop/reckoning"
)

// FillPage writes the list of attacks and the figures of a report into a page.
// Without a report it keeps the old figures.
func FillPage(page string, r *Report) (string, error) {
	blocks := map[string]string{"attacks": attacksTable()}
	if r != nil {
		blocks["siege"] = r.table()
	}
	return reckoning.Fill(page, blocks)
}

// attacksTable returns a table of the attacks.
func attacksTable() string {
	var b strings.Builder
	b.WriteString("| attack | what it does |\n|---|---|\n")
	for i := range Attacks {
		fmt.Fprintf(&b, "| `%s` | %s |\n", Attacks[i].Name, Attacks[i].Does)
	}
	return b.String()
}

// columns are the clients whose latency the table shows, in order.
var columns = []string{"reader", "writer", "tcp", "mount", "connect", "operator", "metrics"}

// table returns a table with a row for each attack.
func (r *Report) table() string {
	var b strings.Builder
	attackers := "SCHED_IDLE"
	if r.Group {
		attackers = "a control group with cpu.idle"
	}
	fmt.Fprintf(&b, "%s, %d processors, %.0f s in each phase, attackers in %s:\n\n", r.Started.UTC().Format("2 January 2006"), r.CPUs, r.Seconds, attackers)
	b.WriteString("| attack | " + strings.Join(columns, " | ") + " | errors | RSS, MiB | descriptors | goroutines | log, KiB | goals |\n")
	b.WriteString(strings.Repeat("|---", len(columns)+7) + "|\n")
	met := 0
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		fmt.Fprintf(&b, "| `%s` |", o.Name)
		for _, name := range columns {
			fmt.Fprintf(&b, " %s |", change("%.3g", o.Before.Clients[name].P99, o.During.Clients[name].P99))
		}
		errs, goals := 0, "missed"
		for _, l := range o.During.Clients {
			errs += l.Errors
		}
		if len(o.Failures) == 0 {
			goals = "met"
			met++
		}
		fmt.Fprintf(&b, " %d | %s | %s | %s | %d | %s |\n", errs,
			change("%d", o.Before.RSS>>20, o.During.RSS>>20), change("%d", o.Before.Descriptors, o.During.Descriptors),
			change("%d", o.Before.Goroutines, o.During.Goroutines), o.During.LogBytes>>10, goals)
	}
	fmt.Fprintf(&b, "\n%d of %d attacks meet all goals.\n", met, len(r.Outcomes))
	return b.String()
}

// change formats a figure before and during an attack.
func change[T int | int64 | float64](format string, before, during T) string {
	return fmt.Sprintf(format+" → "+format, before, during)
}
