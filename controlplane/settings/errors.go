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

// invalid makes an InvalidError of one violation.
func invalid(field, format string, args ...any) error {
	return &InvalidError{Violations: []Violation{{Field: field, Text: fmt.Sprintf(format, args...)}}}
}

// UnavailableError refuses a setting that nothing implements yet.
type UnavailableError struct {
	Key    string
	Reason string
}

func (e *UnavailableError) Error() string { return e.Key + ": not available: " + e.Reason }

// StaleError refuses a change made for another revision than the current.
type StaleError struct{ Expected, Current uint32 }

func (e *StaleError) Error() string {
	return fmt.Sprintf("the settings are at revision %d, not %d: read them again", e.Current, e.Expected)
}

// NotFoundError refuses a scope whose listener or connection doesn't exist.
type NotFoundError struct{ Scope Scope }

func (e *NotFoundError) Error() string {
	if e.Scope.Kind == Listener {
		return fmt.Sprintf("%s: there is no such listener", e.Scope)
	}
	return fmt.Sprintf("%s: there is no such connection; its settings ended with it", e.Scope)
}

// LimitError refuses a change that would pass a bound of the model.
type LimitError struct {
	What  string // such as "scopes"
	Limit uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("no more than %d %s", e.Limit, e.What)
}
