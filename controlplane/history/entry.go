// Package history is the record of revisions of the live settings: the actor of
// each, its kind, and its changes, so that it can be rolled back.
//
// It has no I/O and no locks: the caller makes entries one after another and
// stores them. Entries are immutable once they are in a Log.
package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// Kind is how a revision came about.
type Kind uint8

// The kinds of revisions.
const (
	Set          Kind = iota // an operator's change
	Rollback                 // an operator's return to an earlier state
	AutoRollback             // rolls back a change that was not confirmed
	Reload                   // another configuration file
	Load                     // a dump that was loaded
	Fleet                    // another assignment by the fleet
	NumKinds
)

var kinds = [NumKinds]string{"set", "rollback", "auto-rollback", "reload", "load", "fleet"}

// String names the kind.
func (k Kind) String() string { return kinds[k] }

// MarshalText is String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is MarshalText's inverse.
func (k *Kind) UnmarshalText(b []byte) error { return named(k, "kind", kinds[:], b) }

// named sets to to the value of a name.
func named[E ~uint8](to *E, what string, names []string, b []byte) error {
	i := slices.Index(names, string(b))
	if i < 0 {
		return fmt.Errorf("%s %q", what, b)
	}
	*to = E(i)
	return nil
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

// MarshalText is String.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is MarshalText's inverse.
func (s *Status) UnmarshalText(b []byte) error { return named(s, "status", statuses[:], b) }

// Actor is who made a revision.
type Actor struct {
	Name string `json:"name,omitempty"` // such as a user or a certificate's name
	From string `json:"from,omitempty"` // such as an address
}

// Entry is one revision. Its JSON is what the state directory holds.
type Entry struct {
	Revision uint32    `json:"revision"`
	Time     time.Time `json:"time"`
	Actor    Actor     `json:"actor,omitzero"`
	Comment  string    `json:"comment,omitempty"`
	Kind     Kind      `json:"kind"`
	Status   Status    `json:"status"`
	// Deadline of the confirm window; zero without one.
	Deadline time.Time `json:"deadline,omitzero"`
	// Scope, Set and Unset are what was asked for, of the kind Set; of Reload,
	// Set and Unset are what the file gives anew and gives no more.
	Scope settings.Scope  `json:"scope"`
	Set   settings.Values `json:"set,omitzero"`
	Unset settings.KeySet `json:"unset,omitzero"`
	// Target is the revision that was returned to, of rollbacks.
	Target uint32 `json:"target,omitempty"`
	// Step is what the revision changed, as far as it can be rolled back:
	// settings of connections are not stored.
	Step settings.Step `json:"step"`
}
