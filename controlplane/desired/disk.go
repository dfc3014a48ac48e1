package desired

import (
	"github.com/rdmad/rdmad/controlplane/statefile"
)

// Record is the data that one revision writes.
type Record = statefile.Record

// Disk stores revisions.
type Disk interface {
	// Commit writes a record completely or not at all. It is on the disk when Commit returns.
	Commit(*Record) error
	// Doubt returns the reason why every Commit is refused until a restart, or nil. It may be
	// called at any time.
	Doubt() error
	Close() error
}
