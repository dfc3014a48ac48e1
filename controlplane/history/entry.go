// Package history records the revisions of the live settings: the actor of each, its kind, and
// its changes, so that it can be rolled back.
//
// It has no I/O and no locks: the caller makes entries one after another and stores them.
// Entries are immutable once they are in a Log.
package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// Kind is the origin of a revision.
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

// String returns the name of the kind.
func (k Kind) String() string { return kinds[k] }

// MarshalText returns String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
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

// Status is the state of a revision.
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

// String returns the name of the status.
func (s Status) String() string { return statuses[s] }

// MarshalText returns String.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *Status) UnmarshalText(b []byte) error { return named(s, "status", statuses[:], b) }

// Actor is the author of a revision.
type Actor struct {
	Name string `json:"name,omitempty"` // such as a user or a certificate's name
	From string `json:"from,omitempty"` // such as an address
}

// Entry is one revision. The state directory holds its JSON.
type Entry struct {
	Revision uint32    `json:"revision"`
	Time     time.Time `json:"time"`
	Actor    Actor     `json:"actor,omitzero"`
	Comment  string    `json:"comment,omitempty"`
	Kind     Kind      `json:"kind"`
	Status   Status    `json:"status"`
	// Deadline is the end of the confirm window. It is zero without one.
	Deadline time.Time `json:"deadline,omitzero"`
	// Scope, Set and Unset are the request of a revision of kind Set. For kind Reload, Set and
	// Unset have the values that the file gives since then, and no longer gives.
	Scope settings.Scope  `json:"scope"`
	Set   settings.Values `json:"set,omitzero"`
	Unset settings.KeySet `json:"unset,omitzero"`
	// Target is, for a rollback, the revision that it restores.
	Target uint32 `json:"target,omitempty"`
	// Step is the change, as far as it can be rolled back: settings of connections are not
	// stored.
	Step settings.Step `json:"step"`
}
