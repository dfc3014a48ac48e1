package settings

import "fmt"

// StaleError refuses a change that was made for another revision than the current one.
type StaleError struct{ Expected, Current uint32 }

func (e *StaleError) Error() string {
	return fmt.Sprintf("the settings are at revision %d, not %d: read them again", e.Current, e.Expected)
}

// NotFoundError refuses a scope whose listener or connection does not exist.
type NotFoundError struct{ Scope Scope }

func (e *NotFoundError) Error() string {
	if e.Scope.Kind == Listener {
		return fmt.Sprintf("%s: there is no such listener", e.Scope)
	}
	return fmt.Sprintf("%s: there is no such connection; its settings ended with it", e.Scope)
}

// LimitError refuses a change that would exceed a bound of the model.
type LimitError struct {
	What  string // such as "scopes"
	Limit uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("no more than %d %s", e.Limit, e.What)
}
