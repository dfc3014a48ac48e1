// Package statefile keeps the live settings on disk, in one bbolt file:
// scopes, the configuration file's layer and the history.
//
// The caller makes revisions one after another and gives each to Commit before
// it counts; what Commit returned without an error survives a crash of the
// process and of the machine. A file that is damaged or from a newer rdmad is
// refused and left as it is.
package statefile

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Record is what is stored at once.
type Record struct {
	// Entry is a new revision; nil when only Amend changes. What it changed
	// is in its Step; settings of connections aren't stored.
	Entry *history.Entry
	// Amend is an earlier revision with another status; nil without.
	Amend *history.Entry
	// Seen is what the configuration file says now; nil when that stays.
	Seen *settings.Values
	// Drop lists revisions that the history lets go.
	Drop []uint32
}

// Contents is what a file holds.
type Contents struct {
	Revision uint32
	Layers   map[settings.Scope]settings.Layer
	File     settings.FileLayer // in force
	Seen     settings.Values    // what the configuration file said last
	Entries  []*history.Entry   // the oldest first, without a gap up to Revision

	counts stateText
}
