// Package fleet is the model of a fleet: policies, the nodes that they select, and the
// settings that a node gets from the policies that select it.
//
// It has no I/O, no locks and no goroutines. A Policy is immutable once it has a revision.
package fleet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Bounds of the model. Everything here can come from etcd, to which others can write.
const (
	maxName     = 63   // bytes of a node's, policy's or label's name, and of a label's value
	MaxLabels   = 64   // of a node
	MaxTerms    = 16   // of a selector
	MaxChoices  = 64   // values of one term
	MaxPolicies = 1024 // of a fleet
	MaxNodes    = 16384
	MaxComment  = 512 // bytes
)

// Labels describe a node.
type Labels map[string]string

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	nameProblem  = fmt.Sprintf("must be 1 to %d letters, digits, '-', '_' and '.', and begin and end with a letter or digit", maxName)
	valueProblem = fmt.Sprintf("must be at most %d letters, digits, '-', '_' and '.', and begin and end with a letter or digit", maxName)
)

// NameProblem returns what is wrong with the name of a node, policy or label, or "".
func NameProblem(s string) string {
	if len(s) > maxName || !namePattern.MatchString(s) {
		return fmt.Sprintf("%q %s", cut(s), nameProblem)
	}
	return ""
}

// valueWrong returns what is wrong with the value of a label, or "". A value may be empty.
func valueWrong(s string) string {
	if s != "" && NameProblem(s) != "" {
		return fmt.Sprintf("%q %s", cut(s), valueProblem)
	}
	return ""
}

// cut shortens a text for a message.
func cut(s string) string { return atMost(s, maxName) }

// atMost shortens a text to a number of bytes, with a mark.
func atMost(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// ParseLabels reads what String writes, such as rack=r1,role=gateway.
func ParseLabels(text string) (Labels, error) {
	l := Labels{}
	if strings.TrimSpace(text) == "" {
		return l, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, twice := l[name]; !ok || twice {
			return nil, fmt.Errorf("%q is not NAME=VALUE,…, each name once", cut(part))
		}
		l[name] = value
	}
	return l, l.Check()
}

// Check refuses wrong names and values, and too many labels.
func (l Labels) Check() error {
	if len(l) > MaxLabels {
		return fmt.Errorf("no more than %d labels (there are %d)", MaxLabels, len(l))
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if text := NameProblem(name); text != "" {
			return fmt.Errorf("label %s", text)
		}
		if text := valueWrong(l[name]); text != "" {
			return fmt.Errorf("value of label %s: %s", name, text)
		}
	}
	return nil
}

// String writes the labels in the order of their names.
func (l Labels) String() string {
	parts := make([]string, 0, len(l))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, name+"="+l[name])
	}
	return strings.Join(parts, ",")
}
