// Package history is the record of revisions of the live settings: who made
// each, how, and what it changed, so that it can be taken back.
//
// It has no I/O and no locks: the caller makes entries one after another and
// stores them. Entries are immutable once they are in a Log.
package history

import (
	"time"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// Kind is how a revision came about.
type Kind uint8

// The kinds of revisions.
const (
	Set          Kind = iota // an operator's change
	Rollback                 // an operator's return to an earlier state
	AutoRollback             // the return from a change that nobody confirmed
	Reload                   // another configuration file
	Load                     // a dump that was loaded
	NumKinds
)

var kinds = [NumKinds]string{"set", "rollback", "auto-rollback", "reload", "load"}

// String names the kind.
func (k Kind) String() string { return kinds[k] }

// ParseKind is String's inverse.
func ParseKind(s string) (Kind, bool) {
	for k, name := range kinds {
		if name == s {
			return Kind(k), true
		}
	}
	return 0, false
}

// Status is what became of a revision.
type Status uint8

// Statuses. A revision that was made without a confirm window is Applied for
// good; one with a window is Pending at first.
const (
	Applied Status = iota
	Pending
	Confirmed
	RolledBack // within its window, by somebody or by itself
	NumStatuses
)

var statuses = [NumStatuses]string{"applied", "pending", "confirmed", "rolled back"}

// String names the status.
func (s Status) String() string { return statuses[s] }

// ParseStatus is String's inverse.
func ParseStatus(s string) (Status, bool) {
	for i, name := range statuses {
		if name == s {
			return Status(i), true
		}
	}
	return 0, false
}

// Actor is who made a revision.
type Actor struct {
	Name string // such as a user or a certificate's name
	From string // such as an address
}

// Entry is one revision.
type Entry struct {
	Revision uint32
	Time     time.Time
	Actor    Actor
	Comment  string
	Kind     Kind
	Status   Status
	// Deadline of the confirm window; zero without one.
	Deadline time.Time
	// Scope, Set and Unset are what was asked for, of the kind Set; of Reload,
	// Set and Unset are what the file gives anew and gives no more.
	Scope settings.Scope
	Set   settings.Values
	Unset settings.KeySet
	// Target is the revision that was returned to, of rollbacks.
	Target uint32
	// Step is what the revision changed, as far as it can still be taken
	// back: settings of connections aren't stored.
	Step settings.Step
}
