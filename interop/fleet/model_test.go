package fleet

import (
	"fmt"
	"maps"
	"math"
	"slices"
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
	Value   string
	Outcome outcome
}

// model says what a node's history may be: a write comes from the controller that was elected
// last, revisions of assignments grow, a read returns the newest, and what is in force never goes
// back and is not lost by a restart.
var model = porcupine.NondeterministicModel{
	Init: func() []any { return []any{nodeState{}} },
	Step: func(state, input, _ any) []any {
		return step(state.(nodeState), input.(deed))
	},
	DescribeOperation: func(input, _ any) string {
		d := input.(deed)
		return fmt.Sprintf("%s %s term %d revision %d %s: %s", d.Node, d.Op, d.Term, d.Rev, d.Value, d.Outcome)
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
		next.Applied = d.Rev
		ok := legal(d.Rev > s.Applied && (d.Rev <= s.Rev || s.Rev == wild), next)
		if d.Outcome == unknown {
			ok = append(ok, was)
		}
		return ok
	case opStart:
		return legal(d.Rev == s.Applied, was)
	}
	return nil
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
	d := deed{Op: r.Op, Node: node, Process: r.Process, Term: r.Term, Rev: r.Rev, Outcome: r.Outcome}
	value, written := r.Values[node]
	d.Value = value
	switch r.Op {
	case opLead:
		return d, r.Outcome == done
	case opWrite:
		return d, written && r.Outcome != refused
	case opRead:
		return d, r.Node == node && r.Outcome == done
	case opStart:
		return d, r.Node == node
	}
	return d, r.Node == node && r.Outcome != refused
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
