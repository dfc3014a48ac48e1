// Package statefile keeps the live settings on disk: scopes, the configuration
// file's layer and the history.
//
// A file is text with a checksum: all of that but older entries of the history.
// Those are in segments, files beside it that never change; the file lists them
// with their checksums. A revision replaces the file as a whole. So what is found is
// what was stored last, and damage anywhere is seen.
//
// The caller makes revisions one after another and gives each to Commit before
// it counts; what Commit returned without an error survives a crash of the
// process and of the machine. A file that is damaged or from a newer rdmad is
// refused and left as it is.
package statefile

import (
	"encoding/json"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Record is what is stored at once.
type Record struct {
	// Entry is a new revision; nil when only Amend changes. What it changed
	// is in its Step; settings of connections aren't stored.
	Entry *history.Entry
	// Amend is the newest revision so far with another status; nil without.
	Amend *history.Entry
	// Seen is what the configuration file says now; nil when that stays.
	Seen *settings.FileLayer
	// Elements is what an import makes of the services, listeners and connectors, as JSON:
	// the import is stored at once with its settings. The file keeps it until a record has
	// ElementsDone. Nil when it stays.
	Elements     json.RawMessage
	ElementsDone bool
	// Drop lists the oldest revisions, which the history lets go.
	Drop []uint32
}

// Contents is what a file holds.
type Contents struct {
	Revision uint32
	Layers   map[settings.Scope]settings.Layer
	File     settings.FileLayer // in force
	Fleet    settings.FleetLayer
	Seen     settings.FileLayer // what the configuration file said last; without lines
	Elements json.RawMessage    // of an import; nil when there is none, or it is done
	Entries  []*history.Entry   // the oldest first, without a gap up to Revision

	// Kept is where Open left the file of an earlier rdmad that it took these
	// contents from; "" when it did not.
	Kept string
}
