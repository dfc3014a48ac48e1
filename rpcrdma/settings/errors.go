package settings

import (
	"fmt"
	"strings"
)

// Violation is one error in a change.
type Violation struct {
	Field string // dotted key, or "scope"
	Text  string // what is allowed, and what was given
	// Scope is the one at which the configuration file gives the value that is to
	// blame; "" for its global settings and for values from elsewhere.
	Scope string
	// Set is the scope at which operators set the value that is to blame; "" for values from
	// elsewhere.
	Set string
}

// InvalidError refuses a change because of its violations.
type InvalidError struct{ Violations []Violation }

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.Field + ": " + v.Text
	}
	return strings.Join(parts, "; ")
}

// Invalid returns an InvalidError with one violation.
func Invalid(field, format string, args ...any) error {
	return &InvalidError{Violations: []Violation{{Field: field, Text: fmt.Sprintf(format, args...)}}}
}
