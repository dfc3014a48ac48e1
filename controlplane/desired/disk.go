package desired

import (
	"github.com/rdmad/rdmad/controlplane/statefile"
)

// Record is what one revision writes.
type Record = statefile.Record

// Disk is where revisions are stored.
type Disk interface {
	// Commit has a record on the disk before it returns, or nothing of it.
	Commit(*Record) error
	Close() error
}
