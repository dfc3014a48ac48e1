package desired

import (
	"fmt"
	"time"
)

// PendingError refuses a change while another one waits to be confirmed, and refuses to confirm an
// assignment of the fleet.
type PendingError struct {
	Revision uint32 // that waits
	Deadline time.Time
	Fleet    bool // the fleet's controller confirms it, and nobody else
}

func (e *PendingError) Error() string {
	if e.Fleet {
		return fmt.Sprintf("revision %d is an assignment of the fleet, which the controller confirms until %s: wait for that, or roll it back first",
			e.Revision, e.Deadline.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("revision %d waits to be confirmed until %s: confirm it or roll it back first",
		e.Revision, e.Deadline.UTC().Format(time.RFC3339))
}

// NotPendingError refuses to confirm a revision that does not wait for it.
type NotPendingError struct {
	Revision uint32 // that was to be confirmed; 0 is any
	Pending  uint32 // that waits; 0 when none does
}

func (e *NotPendingError) Error() string {
	if e.Pending != 0 {
		return fmt.Sprintf("revision %d doesn't wait to be confirmed; revision %d does", e.Revision, e.Pending)
	}
	if e.Revision == 0 {
		return "no revision waits to be confirmed; the time of one may have run out: look at the history"
	}
	return fmt.Sprintf("revision %d doesn't wait to be confirmed; its time may have run out: look at the history", e.Revision)
}

// TakenBackError refuses an assignment of the fleet that was in force and was not confirmed.
type TakenBackError struct{ Assignment int64 }

func (e *TakenBackError) Error() string {
	return fmt.Sprintf("assignment %d was not confirmed in time, or was rolled back by an operator: this node took it back", e.Assignment)
}

// UnknownRevisionError refuses a rollback to a revision that is not kept any more or does not
// exist yet.
type UnknownRevisionError struct{ Revision, Oldest, Current uint32 }

func (e *UnknownRevisionError) Error() string {
	if e.Oldest >= e.Current {
		return fmt.Sprintf("no way back to revision %d: the settings are at revision %d and nothing older is kept",
			e.Revision, e.Current)
	}
	return fmt.Sprintf("no way back to revision %d: revisions %d to %d can be returned to",
		e.Revision, e.Oldest, e.Current-1)
}

// StorageError refuses a change that could not be stored. Nothing changed.
type StorageError struct{ Err error }

func (e *StorageError) Error() string {
	return "not changed, as it could not be stored: " + e.Err.Error()
}
func (e *StorageError) Unwrap() error { return e.Err }
