package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// Op is the condition of a term on a label.
type Op uint8

// The operators.
const (
	In     Op = iota // the label has one of the values
	NotIn            // the label is missing, or has another value
	Exists           // the label is there
	Absent           // it is not
)

// Term is one condition on a label.
type Term struct {
	Label  string
	Op     Op
	Values []string // of In and NotIn
}

// Selector selects the nodes whose labels meet all terms. The empty Selector selects all.
type Selector []Term

// ParseTerm reads NAME=VALUE, NAME!=VALUE, NAME in (VALUE, …), NAME not in (VALUE, …), NAME
// or !NAME.
func ParseTerm(text string) (Term, error) {
	t, ok := parseTerm(strings.TrimSpace(text))
	if !ok {
		return Term{}, fmt.Errorf("%q is not NAME=VALUE, NAME!=VALUE, NAME in (VALUE, …), NAME not in (VALUE, …), NAME or !NAME", cut(text))
	}
	return t, t.check()
}

func parseTerm(text string) (Term, bool) {
	if rest, ok := strings.CutPrefix(text, "!"); ok {
		return Term{Label: strings.TrimSpace(rest), Op: Absent}, true
	}
	if before, list, ok := strings.Cut(text, "("); ok {
		return parseList(strings.Fields(before), list)
	}
	if name, value, ok := strings.Cut(text, "!="); ok {
		return Term{strings.TrimSpace(name), NotIn, []string{strings.TrimSpace(value)}}, true
	}
	if name, value, ok := strings.Cut(text, "="); ok {
		return Term{strings.TrimSpace(name), In, []string{strings.TrimSpace(value)}}, true
	}
	return Term{Label: text, Op: Exists}, !strings.ContainsAny(text, " \t")
}

// parseList reads the list of values behind the words of a term.
func parseList(words []string, list string) (Term, bool) {
	list, ok := strings.CutSuffix(list, ")")
	if !ok || len(words) < 2 {
		return Term{}, false
	}
	t := Term{Label: words[0]}
	switch strings.Join(words[1:], " ") {
	case "in":
	case "not in":
		t.Op = NotIn
	default:
		return Term{}, false
	}
	for value := range strings.SplitSeq(list, ",") {
		t.Values = append(t.Values, strings.TrimSpace(value))
	}
	return t, true
}

func (t *Term) check() error {
	if text := NameProblem(t.Label); text != "" {
		return fmt.Errorf("label %s", text)
	}
	if len(t.Values) > MaxChoices {
		return fmt.Errorf("label %s: no more than %d values", t.Label, MaxChoices)
	}
	for _, v := range t.Values {
		if text := valueWrong(v); text != "" {
			return fmt.Errorf("value of label %s: %s", t.Label, text)
		}
	}
	return nil
}

// String returns the text that ParseTerm reads.
func (t Term) String() string {
	switch {
	case t.Op == Exists:
		return t.Label
	case t.Op == Absent:
		return "!" + t.Label
	case t.Op == In && len(t.Values) == 1:
		return t.Label + "=" + t.Values[0]
	case t.Op == In:
		return t.Label + " in (" + strings.Join(t.Values, ", ") + ")"
	case len(t.Values) == 1:
		return t.Label + "!=" + t.Values[0]
	}
	return t.Label + " not in (" + strings.Join(t.Values, ", ") + ")"
}

func (t *Term) matches(l Labels) bool {
	value, there := l[t.Label]
	switch t.Op {
	case In:
		return there && slices.Contains(t.Values, value)
	case NotIn:
		return !there || !slices.Contains(t.Values, value)
	case Absent:
		return !there
	}
	return there
}

// Matches reports whether a node with these labels is selected.
func (s Selector) Matches(l Labels) bool {
	return !slices.ContainsFunc(s, func(t Term) bool { return !t.matches(l) })
}

// Texts returns the text of each term.
func (s Selector) Texts() []string {
	out := make([]string, len(s))
	for i, t := range s {
		out[i] = t.String()
	}
	return out
}

// String returns the terms in one line.
func (s Selector) String() string { return strings.Join(s.Texts(), ", ") }

// demand is what all terms of a label ask together.
type demand struct {
	present, absent bool
	listed          bool     // only the values in among
	among           []string // in all lists of In
	except          []string
}

func (d *demand) add(t *Term) {
	switch t.Op {
	case Exists:
		d.present = true
	case Absent:
		d.absent = true
	case NotIn:
		d.except = append(d.except, t.Values...)
	case In:
		among := slices.DeleteFunc(slices.Clone(t.Values), func(v string) bool { return d.listed && !slices.Contains(d.among, v) })
		d.present, d.listed, d.among = true, true, among
	}
}

// possible reports whether a label can meet the demand.
func (d *demand) possible() bool {
	if !d.present {
		return true // a missing label meets it
	}
	if d.absent {
		return false
	}
	// Values that are not listed never run out.
	return !d.listed || slices.ContainsFunc(d.among, func(v string) bool { return !slices.Contains(d.except, v) })
}

// Overlaps reports whether some labels are selected by both.
func (s Selector) Overlaps(other Selector) bool {
	demands := make(map[string]*demand)
	for _, t := range slices.Concat(s, other) {
		if demands[t.Label] == nil {
			demands[t.Label] = &demand{}
		}
		demands[t.Label].add(&t)
	}
	for _, d := range demands {
		if !d.possible() {
			return false
		}
	}
	return true
}
