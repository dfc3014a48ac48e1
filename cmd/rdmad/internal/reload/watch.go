package reload

import (
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Editors write a file in several steps, or write another and rename it: the
// file is read after a while without a change in its folder, but not later
// than so long after the first.
const (
	quietTime = 200 * time.Millisecond
	mostTime  = 2 * time.Second
)

// files tells of changes in the folder of a file. The folder is watched, not
// the file, which may be another one after each change.
type files struct {
	watcher *fsnotify.Watcher
	timer   *time.Timer
	first   time.Time // event that was not told yet; zero without one
}

func watchFolder(file string) (*files, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(filepath.Dir(file)); err != nil {
		w.Close()
		return nil, err
	}
	f := &files{watcher: w, timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	return f, nil
}

// event notes that something happened.
func (f *files) event(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.timer.Reset(min(quietTime, max(f.first.Add(mostTime).Sub(now), 0)))
}

// due is when something was told by the timer.
func (f *files) due() { f.first = time.Time{} }

func (f *files) close() {
	f.timer.Stop()
	f.watcher.Close()
}
