// Package statefile keeps the live settings on disk: scopes, the configuration file's layer and
// the history.
//
// A file is text with a checksum. It has everything but older entries of the history. Those are
// in segments, files beside it that never change; the file lists them with their checksums. A
// revision replaces the whole file. So a reader finds the last stored state, and detects damage
// anywhere.
//
// The caller makes revisions one after another, and passes each to Commit before it takes
// effect. A record that Commit accepted survives a crash of the process and of the machine. A
// file that is damaged or from a newer rdmad is refused, and not changed.
package statefile

import (
	"encoding/json"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Record is stored by one Commit.
type Record struct {
	// Entry is a new revision, or nil if only Amend changes. Its Step has the change; settings
	// of connections are not stored.
	Entry *history.Entry
	// Amend is the newest revision so far with another status, or nil.
	Amend *history.Entry
	// Seen has the new settings of the configuration file, or is nil if they stay.
	Seen *settings.FileLayer
	// Elements has the services, listeners and connectors of an import, as JSON, or is nil if
	// they stay. The import is stored together with its settings. The file keeps Elements until
	// a record has ElementsDone.
	Elements     json.RawMessage
	ElementsDone bool
	// Drop lists the oldest revisions, which the history drops.
	Drop []uint32
}

// Contents is the content of a file.
type Contents struct {
	Revision uint32
	Layers   map[settings.Scope]settings.Layer
	File     settings.FileLayer // in force
	Fleet    settings.FleetLayer
	Seen     settings.FileLayer // what the configuration file said last; without lines
	Elements json.RawMessage    // of an import; nil when there is none, or it is done
	Entries  []*history.Entry   // the oldest first, without a gap up to Revision

	// Kept is where Open left the file of an earlier rdmad from which it took these contents,
	// or "".
	Kept string
}
