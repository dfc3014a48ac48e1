package fleet

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// nodeState is what the model has of one node: who may write its assignment, the assignment, and
// what is in force.
type nodeState struct {
	Term    int64 // of the controller
	Rev     int64 // of the assignment; wild after a write without an answer
	Value   string
	Applied int64
	Waits   bool  // Applied is to be confirmed
	Kept    int64 // what is in force again when it is not
	Top     int64 // the newest that ever was in force
}

// wild is a revision that is not known.
const wild = -1

// deed is an operation on one node.
type deed struct {
	Op      op
	Node    string
	Process int
	Term    int64
	Rev     int64
	Lost    int64
	Waits   bool
	Value   string
	Outcome outcome
}

// model says what a node's history may be: a write comes from the controller that was elected
// last, revisions of assignments grow, a read returns the newest, and what is in force is not lost
// by a restart and never goes back, unless it waits to be confirmed: then to what was before.
var model = porcupine.NondeterministicModel{
	Init: func() []any { return []any{nodeState{}} },
	Step: func(state, input, _ any) []any {
		return step(state.(nodeState), input.(deed))
	},
	DescribeOperation: func(input, _ any) string {
		d := input.(deed)
		return fmt.Sprintf("%s %s term %d revision %d waits %v lost %d %s: %s", d.Node, d.Op, d.Term, d.Rev, d.Waits, d.Lost, d.Value, d.Outcome)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

func step(s nodeState, d deed) []any {
	was, next := s, s
	switch d.Op {
	case opLead:
		next.Term = d.Term
		return legal(d.Term > s.Term, next)
	case opWrite:
		next.Rev, next.Value = d.Rev, d.Value
		if d.Outcome == done {
			return legal(d.Term == s.Term && d.Rev > s.Rev, next)
		}
		next.Rev = wild
		if d.Term != s.Term {
			return []any{was}
		}
		return []any{was, next}
	case opRead:
		next.Rev = d.Rev
		return legal(s.Value == d.Value && (s.Rev == d.Rev || s.Rev == wild), next)
	case opApply:
		if !s.Waits {
			next.Kept = s.Applied
		}
		next.Applied, next.Top, next.Waits = d.Rev, d.Rev, d.Waits
		ok := legal(d.Rev > s.Top && (d.Rev <= s.Rev || s.Rev == wild), next)
		if d.Outcome == unknown {
			ok = append(ok, was)
		}
		return ok
	case opBack:
		return legal(s.Waits && d.Lost == s.Applied && d.Rev == s.Kept, s.back())
	case opStart:
		if s.Waits && !d.Waits { // its time ran out while the node was away
			return legal(d.Rev == s.Kept, s.back())
		}
		return legal(d.Rev == s.Applied && d.Waits == s.Waits, was)
	}
	return nil
}

// back is the state after what is in force was not confirmed.
func (s nodeState) back() nodeState {
	s.Applied, s.Waits = s.Kept, false
	return s
}

func legal(ok bool, next nodeState) []any {
	if ok {
		return []any{next}
	}
	return nil
}

// deeds returns the operations on one node, for porcupine.
func deeds(node string, records []record) (out []porcupine.Operation) {
	type id struct{ process, id int }
	open := make(map[id]record)
	add := func(from, to record, until int64) {
		d, ok := deedOf(node, to)
		if ok {
			out = append(out, porcupine.Operation{ClientId: to.Process, Input: d, Call: from.Time, Return: until})
		}
	}
	for _, r := range records {
		key := id{r.Process, r.ID}
		if r.Begins {
			open[key] = r
			continue
		}
		until := r.Time
		if r.Outcome == unknown {
			until = math.MaxInt64
		}
		add(open[key], r, until)
		delete(open, key)
	}
	for _, key := range slices.SortedFunc(maps.Keys(open), func(a, b id) int { return (a.process-b.process)*1e6 + a.id - b.id }) {
		r := open[key]
		r.Outcome = unknown
		add(r, r, math.MaxInt64)
	}
	return out
}

// deedOf is what an operation does to one node.
func deedOf(node string, r record) (deed, bool) {
	d := deed{Op: r.Op, Node: node, Process: r.Process, Term: r.Term, Rev: r.Rev, Lost: r.Lost, Waits: r.Waits, Outcome: r.Outcome}
	value, written := r.Values[node]
	d.Value = value
	switch r.Op {
	case opLead:
		return d, r.Outcome == done
	case opWrite:
		return d, written && r.Outcome != refused
	case opRead, opBack:
		return d, r.Node == node && r.Outcome == done
	case opStart:
		return d, r.Node == node
	}
	return d, r.Node == node && r.Outcome != refused
}

// A history is one of the model if what is in force goes back only as it may.
func TestModel(t *testing.T) {
	apply := func(rev int64, waits bool) record { return record{Op: opApply, Rev: rev, Waits: waits} }
	start := func(rev int64, waits bool) record { return record{Op: opStart, Rev: rev, Waits: waits} }
	back := func(lost, rev int64) record { return record{Op: opBack, Lost: lost, Rev: rev} }
	for name, c := range map[string]struct {
		legal   bool
		history []record
	}{
		"confirmed":                       {true, []record{apply(5, false), apply(6, true), start(6, true), apply(7, false), start(7, false)}},
		"taken back":                      {true, []record{apply(5, false), apply(6, true), back(6, 5), start(5, false), apply(7, true)}},
		"taken back for another one":      {true, []record{apply(5, false), apply(6, true), apply(7, true), back(7, 5)}},
		"ran out while away":              {true, []record{apply(5, false), apply(6, true), start(5, false)}},
		"taken back to nothing":           {true, []record{apply(5, true), back(5, 0)}},
		"back after it was confirmed":     {false, []record{apply(5, false), apply(6, true), apply(7, false), back(7, 5)}},
		"back to another one than before": {false, []record{apply(4, false), apply(5, false), apply(6, true), back(6, 4)}},
		"the same again":                  {false, []record{apply(5, false), apply(6, true), back(6, 5), apply(6, false)}},
		"an older one":                    {false, []record{apply(6, false), apply(5, false)}},
		"forgotten over a restart":        {false, []record{apply(5, false), apply(6, true), start(6, false)}},
		"lost by a restart":               {false, []record{apply(5, false), apply(6, false), start(5, false)}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			records := []record{{Op: opLead, Begins: true}, {Op: opLead, Term: 1, Outcome: done}}
			for i, r := range slices.Concat([]record{{Op: opWrite, Term: 1, Rev: 9, Values: map[string]string{"a": "x"}}}, c.history) {
				r.Node, r.ID, r.Time, r.Begins = "a", i+1, int64(2*i+2), true
				records = append(records, r)
				r.Time, r.Begins, r.Outcome = r.Time+1, false, done
				records = append(records, r)
			}
			if err := linearizable("a", records); (err == nil) != c.legal {
				t.Error(err)
			}
		})
	}
}

// linearizable checks the history of one node.
func linearizable(node string, records []record) error {
	m := model.ToModel()
	switch result, info := porcupine.CheckOperationsVerbose(m, deeds(node, records), 30*time.Second); result {
	case porcupine.Illegal:
		text := fmt.Sprintf("the history of %s is not one of the model", node)
		if partial := info.PartialLinearizationsOperations(); len(partial) > 0 && len(partial[0]) > 0 {
			longest := slices.MaxFunc(partial[0], func(a, b []porcupine.Operation) int { return len(a) - len(b) })
			text += fmt.Sprintf(": %d of %d operations fit, the last ones", len(longest), len(deeds(node, records)))
			for _, o := range longest[max(0, len(longest)-5):] {
				text += "\n  " + m.DescribeOperation(o.Input, nil)
			}
		}
		return fmt.Errorf("%s", text)
	case porcupine.Unknown:
		return fmt.Errorf("the history of %s took too long to check", node)
	}
	return nil
}
