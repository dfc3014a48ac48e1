package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// noise is how much longer than before a p99 may be whatever the gate says: p99 of short calls
// changes a lot.
const noise = time.Millisecond

// maxThing bounds the part of the name of a condition's thing in its ID, in bytes. Paths can be longer.
const maxThing = 512

// ID names a condition and its reason.
func (c *Condition) ID() string {
	thing := strings.ToValidUTF8(c.Name[:min(len(c.Name), maxThing)], "")
	return c.Kind + "/" + thing + " " + c.Reason
}

// failure is a gate that fails: at a node, or "" for the gates over all nodes.
type failure struct{ node, text string }

// judge holds the nodes of the waves that have begun against the gates. wake is when time alone
// can make one fail.
func (v *View) judge(r *Rollout, now time.Time) (f *failure, wake time.Time) {
	var lost []string
	unsupported := uint64(0)
	for _, node := range r.begun() {
		m := v.Members[node]
		gone, at := m.lost(r.Plan, now)
		if gone {
			lost = append(lost, node)
			continue
		}
		wake = earlier(wake, at)
		if text := r.Plan.judge(m); text != "" {
			return &failure{node, node + ": " + text}, time.Time{}
		}
		f, late := r.Plan.silent(node, m, now)
		if f != nil {
			return f, time.Time{}
		}
		wake = earlier(wake, late)
		if m.has() && m.Reports[0] != nil {
			unsupported += uint64(m.Reports[0].Outcomes.Unsupported)
		}
	}
	switch {
	case len(lost) > int(r.Plan.MaxLost):
		return &failure{lost[0], fmt.Sprintf("%s: DOWN for more than %v after the change (max_lost is %d)", Names(lost), r.Plan.ApplyWithin, r.Plan.MaxLost)}, time.Time{}
	case unsupported > uint64(r.Plan.MaxUnsupported):
		return &failure{"", fmt.Sprintf("the change is UNSUPPORTED on %d connections (max_unsupported is %d)", unsupported, r.Plan.MaxUnsupported)}, time.Time{}
	}
	return nil, wake
}

// silent judges whether a node that is up has been without a report for as long as nodes wait to take a change back: it
// then hangs. late is when it will have been; zero while it is not up.
func (p *Plan) silent(node string, m *Member, now time.Time) (f *failure, late time.Time) {
	if !m.Up {
		return nil, time.Time{}
	}
	last := m.Since // after which it has its first report still to make
	if r := m.Reports[0]; r != nil && r.Seen.After(last) {
		last = r.Seen
	}
	if late = last.Add(p.Window()); now.Before(late) {
		return nil, late
	}
	return &failure{node, fmt.Sprintf("%s: UP, but without a report for %v", node, p.Window())}, late
}

// earlier is the earlier time of two, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Names writes the first of many names.
func Names(all []string) string {
	const most = 8
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// judge returns what is worse on a node than before, or "".
func (p *Plan) judge(m *Member) string {
	last := m.Reports[0]
	switch {
	case last == nil:
		return ""
	case last.Assigned == m.Assigned.At && last.Refused != "":
		return "not applied: " + last.Refused
	case !m.has() || m.Assigned.Before == nil:
		return ""
	}
	if text := p.judgeConditions(last.Conditions, m.Assigned.Before.Conditions); text != "" {
		return text
	}
	return p.judgeLoad(m.Reports, m.Assigned.Before)
}

func (p *Plan) judgeConditions(now []Condition, before []string) string {
	for i := range now {
		if c := &now[i]; !p.IgnoreConditions && c.gated() && !slices.Contains(before, c.ID()) {
			return fmt.Sprintf("condition %s/%s is %s, %s: %s", c.Kind, c.Name, c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// judgeLoad takes the better one of two reports with the change: one that is worse may be chance.
func (p *Plan) judgeLoad(reports [2]*Reported, before *Before) string {
	last, previous := reports[0], reports[1]
	if previous == nil || previous.Applied != last.Applied {
		return ""
	}
	if now := min(last.Load.Errors, previous.Load.Errors); now > before.Errors+p.MaxErrors {
		return fmt.Sprintf("%.1f errors per second, %.1f before (max_errors_per_second is %v more)", now, before.Errors, p.MaxErrors)
	}
	bound := time.Duration(math.Min(float64(before.P99)*p.MaxP99, math.MaxInt64/2))
	if now := min(last.Load.P99, previous.Load.P99); p.MaxP99 > 0 && before.P99 > 0 && now > bound && now > before.P99+noise {
		return fmt.Sprintf("p99 is %v, %v before (max_p99_ratio is %v)", now, before.P99, p.MaxP99)
	}
	return ""
}

// gated reports whether a condition halts rollouts. Those of the fleet itself don't.
func (c *Condition) gated() bool {
	return c.Kind != "fleet" && c.Kind != "rollout" && (c.Status == "DEGRADED" || c.Status == "FAILED")
}
