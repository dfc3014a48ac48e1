package settings

import (
	"fmt"
	"strings"
)

// Violation is one thing wrong with a change.
type Violation struct {
	Field string // dotted key, or "scope"
	Text  string // what is allowed, and what was given
}

// InvalidError refuses a change for what it says.
type InvalidError struct{ Violations []Violation }

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.Field + ": " + v.Text
	}
	return strings.Join(parts, "; ")
}

// Invalid makes an InvalidError of one violation.
func Invalid(field, format string, args ...any) error {
	return &InvalidError{Violations: []Violation{{Field: field, Text: fmt.Sprintf(format, args...)}}}
}
