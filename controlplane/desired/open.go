package desired

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
)

// Open loads the settings of a file, and stores all further revisions there. It makes a missing
// file. f has the settings of the configuration file: if they differ from the last ones, they
// become a revision. They do not while a revision waits to be confirmed, if they conflict
// with other settings, or if they can't be stored: then the store has the last settings of the
// file, and waits has the reason. Call Reload when the settings have changed, or when there may be
// room. A revision whose confirm window is over is rolled back at once, or as soon as that can be
// stored.
//
// Call Open once, before the first change. Errors are one line for the operator. After an
// error, the store can only be closed.
func (s *Store) Open(path string, f settings.FileLayer) (waits, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.state.Load()
	disk, contents, err := openDisk(path, before, f)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	state, err := before.Restore(contents.Revision, contents.File, contents.Fleet, contents.Layers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("settings: %s doesn't suit this rdmad: %w", path, err), disk.Close())
	}
	if contents.Kept != "" {
		s.log.Info("settings are in a new format now", "file", path, "kept", contents.Kept)
	}
	s.publishing.Lock()
	for _, e := range contents.Entries {
		s.past.Restore(e)
	}
	s.state.Store(state)
	s.publishing.Unlock()
	s.disk, s.seen, s.elements = disk, contents.Seen, contents.Elements
	s.resume()
	if _, _, err = s.reload(f, &Options{Actor: history.Actor{Name: fileActor}}); Waits(err) || errors.As(err, new(*StorageError)) && s.Doubt() == nil {
		return err, nil
	} else if err != nil {
		return nil, fmt.Errorf("settings: %s: %w", f.Name, err)
	}
	return nil, nil
}

// Waits reports whether an error of Reload may go away when the settings change: a revision
// waits to be confirmed, or the file conflicts with other settings.
func Waits(err error) bool {
	return errors.As(err, new(*PendingError)) || errors.As(err, new(*settings.InvalidError)) || errors.As(err, new(*settings.LimitError))
}

func openDisk(path string, s *settings.State, f settings.FileLayer) (*statefile.File, *statefile.Contents, error) {
	disk, contents, err := statefile.Open(path)
	if !errors.Is(err, os.ErrNotExist) {
		return disk, contents, err
	}
	if _, err := s.WithFile(f); err != nil {
		return nil, nil, err
	}
	if err := statefile.Create(path, f); err != nil {
		return nil, nil, err
	}
	return statefile.Open(path)
}

// resume goes on where an earlier process ended; changing is held.
func (s *Store) resume() {
	if p := s.pending(); p != nil && !time.Now().Before(p.Deadline) {
		s.giveUp(p.Revision)
		return
	}
	s.rearm()
}
