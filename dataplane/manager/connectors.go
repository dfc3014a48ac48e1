package manager

import (
	"context"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// ConnectorInfo describes a connector. With StateFailed the counters and the
// bound address are zero.
type ConnectorInfo struct {
	dataplane.ConnectorInfo
	Spec    ConnectorSpec
	Origin  Origin
	Failure string // with StateFailed
}

// ConnectorAPI is what operators can do with connectors; errors are those of
// API.
type ConnectorAPI interface {
	// Connectors describes all connectors, by name.
	Connectors() []ConnectorInfo
	// AddConnector binds a connector, accepts, and keeps it for the next
	// start, or does nothing of that.
	AddConnector(ctx context.Context, c ConnectorSpec) (ConnectorInfo, error)
	// RemoveConnector stops accepting at once, lets the clients' calls finish
	// until drain is over and cuts those that have not. A connector of the
	// configuration file is back at the next start or reload.
	RemoveConnector(name string, drain time.Duration) (dataplane.Removed, error)
}

// ConnectorStore keeps the connectors that were added over restarts.
type ConnectorStore interface {
	// Load gives what was saved last; nothing when nothing was.
	Load() ([]ConnectorSpec, error)
	// Save keeps all, also if the machine fails right afterwards, or keeps
	// what there was.
	Save(all []ConnectorSpec) error
}

// ConnectorFile is a ConnectorStore in one JSON file, in a directory that is
// there.
type ConnectorFile struct{ jsonFile }

var _ ConnectorStore = (*ConnectorFile)(nil)

// NewConnectorFile makes a store in a file, which may be missing.
func NewConnectorFile(path string) *ConnectorFile { return &ConnectorFile{newJSONFile(path)} }

// Load implements ConnectorStore. A file that it can't make sense of is an
// error, and stays as it is.
func (f *ConnectorFile) Load() ([]ConnectorSpec, error) {
	var s Saved
	err := f.load(&s)
	return s.Connectors, err
}

// Save implements ConnectorStore.
func (f *ConnectorFile) Save(all []ConnectorSpec) error {
	return f.save(Saved{Connectors: all})
}
