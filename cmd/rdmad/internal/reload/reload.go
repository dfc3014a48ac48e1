// Package reload takes a changed configuration file into a running rdmad: on
// demand, when the file changes, and when settings that wait to be confirmed
// held it up. A file is taken whole or not at all, and one line of the log
// says which.
package reload

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Settings are where the live settings of a file go; see package
// controlplane.
type Settings interface {
	Reload(settings.FileLayer) (_ desired.Result, changed bool, err error)
	WatchRevisions() (*desired.Watcher, error)
}

// Config is what a Reloader is made with; all fields but Began, Ended and Waiting
// are needed.
type Config struct {
	// Running is the configuration in force. Without a file nothing is ever
	// taken.
	Running *config.Config
	// Load reads the file again.
	Load     func() (*config.Config, error)
	Settings Settings
	// Apply has listeners and services follow, once the settings have. It
	// logs what it does and what fails.
	Apply func(old, next *config.Config)
	// Began and Ended are told of each reload, one that is refused too; nil
	// for nobody.
	Began, Ended func()
	// Waiting says that the file hasn't been taken yet, because a revision of
	// the settings waits to be confirmed.
	Waiting bool
	Logger  *slog.Logger
}

// Reloader takes changes of the file. Run does all the work.
type Reloader struct {
	cfg     Config
	text    []byte // of the file when it was last looked at
	waiting bool
}

// New makes a reloader for what is running. A file that isn't any more what
// Running was read from is a changed one.
func New(cfg Config) *Reloader {
	if cfg.Began == nil {
		cfg.Began = func() {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func() {}
	}
	return &Reloader{cfg: cfg, text: cfg.Running.Text, waiting: cfg.Waiting}
}

// Run works until ctx ends; demand asks for a reload whether the file changed
// or not.
func (r *Reloader) Run(ctx context.Context, demand <-chan os.Signal) {
	folder := r.watch()
	var events chan fsnotify.Event
	var failures chan error
	var due <-chan time.Time
	if folder != nil {
		defer folder.close()
		events, failures, due = folder.watcher.Events, folder.watcher.Errors, folder.timer.C
		folder.event(time.Now()) // it may have changed before it was watched
	}
	revisions := r.revisions()
	defer func() { revisions.close() }()
	if r.waiting { // it may have been settled before it was watched
		r.take()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-demand:
			r.onDemand()
		case <-events:
			folder.event(time.Now())
		case err := <-failures:
			r.cfg.Logger.Warn("changes of the configuration file may be missed; SIGHUP reloads it", "error", err)
			folder.event(time.Now())
		case <-due:
			folder.due()
			events, failures = folder.watcher.Events, folder.watcher.Errors
			r.onChange()
		case <-revisions.entries():
			if r.waiting {
				r.take()
			}
		case <-revisions.done():
			revisions.close()
			revisions = r.revisions()
		}
	}
}

// watch watches the file, if there is one.
func (r *Reloader) watch() *files {
	if r.cfg.Running.File == "" {
		return nil
	}
	folder, err := watchFolder(r.cfg.Running.File)
	if err != nil {
		r.cfg.Logger.Warn("changes of the configuration file are not seen; SIGHUP reloads it", "error", err)
		return nil
	}
	return folder
}

func (r *Reloader) onDemand() {
	r.cfg.Began() // whoever asked waits for the end, even if nothing can be done
	defer r.cfg.Ended()
	if r.cfg.Running.File == "" {
		r.cfg.Logger.Warn("nothing to reload: rdmad was started without --config")
		return
	}
	r.text, _ = os.ReadFile(r.cfg.Running.File) // Load says what is wrong with it
	r.load()
}

// onChange takes the file if it is another one; its folder may have seen
// other changes.
func (r *Reloader) onChange() {
	text, err := os.ReadFile(r.cfg.Running.File)
	if err == nil && bytes.Equal(text, r.text) {
		return
	}
	if err != nil && r.text == nil {
		return // told already
	}
	r.text = text
	r.take()
}

// take is load, with those told who want to know.
func (r *Reloader) take() {
	r.cfg.Began()
	defer r.cfg.Ended()
	r.load()
}

// load loads the file and makes it the running configuration, or says why
// not.
func (r *Reloader) load() {
	r.waiting = false
	next, err := r.cfg.Load()
	if err != nil {
		r.refuse(err)
		return
	}
	_, _, err = r.cfg.Settings.Reload(next.Layer())
	var pending *desired.PendingError
	switch {
	case errors.As(err, &pending):
		r.waiting = true
		r.cfg.Logger.Warn("configuration not reloaded yet", "file", next.File, "reason", pending.Error())
		return
	case err != nil:
		r.refuse(next.Blame(err))
		return
	}
	old := r.cfg.Running
	restart := unchangeable(old, next)
	r.cfg.Apply(old, next)
	// What waits for a restart is still what it was.
	next.Control, next.Metrics, next.State, next.Providers = old.Control, old.Metrics, old.State, old.Providers
	r.cfg.Running = next
	r.cfg.Logger.Info("configuration reloaded", "file", next.File)
	if len(restart) > 0 {
		r.cfg.Logger.Warn("parts of the configuration need a restart to be in force",
			"file", next.File, "parts", strings.Join(restart, ", "))
	}
}

func (r *Reloader) refuse(err error) {
	r.cfg.Logger.Error("configuration not reloaded, everything stays as it is", "error", config.OneLine(err))
}

// unchangeable names the parts that differ and can't follow a running rdmad.
func unchangeable(old, next *config.Config) (parts []string) {
	for _, p := range []struct {
		name      string
		old, next any
	}{
		{"control", old.Control, next.Control}, {"metrics", old.Metrics, next.Metrics}, {"state", old.State, next.State},
		{"providers", old.Providers, next.Providers},
	} {
		if !reflect.DeepEqual(p.old, p.next) {
			parts = append(parts, p.name)
		}
	}
	return parts
}
