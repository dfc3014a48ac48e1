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

// files tells of changes in the folder of a file, and in the one that a link
// there leads to. Folders are watched, not the file, which may be another one
// after each change; so may they.
type files struct {
	file    string
	watcher *fsnotify.Watcher
	timer   *time.Timer
	first   time.Time // event that was not told yet; zero without one
}

func watchFolder(file string) (*files, error) {
	f := &files{file: file, timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	if err := f.follow(); err != nil {
		return nil, err
	}
	return f, nil
}

// follow watches the folders that the file is in now, which may be others
// under the same names. What changed before is to be looked at afterwards.
func (f *files) follow() error {
	folders := []string{filepath.Dir(f.file)}
	if target, err := filepath.EvalSymlinks(f.file); err == nil { // else its folder tells when it is back
		folders = append(folders, filepath.Dir(target))
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := w.Add(folder); err != nil {
			w.Close()
			return err
		}
	}
	if f.watcher != nil {
		f.watcher.Close()
	}
	f.watcher = w
	return nil
}

// event notes that something happened.
func (f *files) event(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.timer.Reset(min(quietTime, max(f.first.Add(mostTime).Sub(now), 0)))
}

// due is when something was told by the timer. A folder that isn't there is
// looked for again after a while.
func (f *files) due() {
	f.first = time.Time{}
	if f.follow() != nil {
		f.first = time.Now()
		f.timer.Reset(mostTime)
	}
}

func (f *files) close() {
	f.timer.Stop()
	f.watcher.Close()
}
