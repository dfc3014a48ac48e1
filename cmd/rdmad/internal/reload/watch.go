package reload

import (
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Editors write a file in several steps, or write another file and rename it. So the file is
// read after quietTime without a change in its folder, but at most mostTime after the first
// change.
const (
	quietTime = 200 * time.Millisecond
	mostTime  = 2 * time.Second
)

// files reports changes in the folder of a file and, if the file is a link, in the folder of
// its target. It watches folders because a change may replace the file. A change may replace
// a folder as well.
type files struct {
	file    string
	watcher *fsnotify.Watcher
	timer   *time.Timer
	first   time.Time // first event that was not reported yet; zero without one
}

func watchFolder(file string) (*files, error) {
	f := &files{file: file, timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	if err := f.follow(); err != nil {
		return nil, err
	}
	return f, nil
}

// follow watches the file's current folders, which may have replaced others of the same name.
// The caller then checks for earlier changes.
func (f *files) follow() error {
	folders := []string{filepath.Dir(f.file)}
	if target, err := filepath.EvalSymlinks(f.file); err == nil { // else its folder reports when it is back
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

// event records an event.
func (f *files) event(now time.Time) {
	if f.first.IsZero() {
		f.first = now
	}
	f.timer.Reset(min(quietTime, max(f.first.Add(mostTime).Sub(now), 0)))
}

// due prepares for new events after the timer has reported a change. If a folder does not
// exist, it tries again later.
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
