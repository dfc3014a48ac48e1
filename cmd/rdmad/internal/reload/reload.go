// Package reload applies a changed configuration file to a running rdmad: on demand, when the
// file changes, and when the reason of an earlier failure may be gone: settings that waited to
// be confirmed, a port in use, a directory that was not mounted, a full disk. A file is applied
// completely or not at all, and one line of the log reports which.
package reload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/dataplane"
)

// Prepared is a version of the file with everything that it needs: addresses are bound, and
// directories open. Either method is called once.
type Prepared interface {
	Commit()  // puts it in service
	Discard() // frees it
}

// OutsideError means that a file can't be applied now, for reasons that may go away.
type OutsideError struct{ Err error }

func (e *OutsideError) Error() string { return e.Err.Error() }

func (e *OutsideError) Unwrap() error { return e.Err }

// The default pauses before a file is tried again after an *OutsideError. The pause doubles.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Config configures a Reloader. All fields except Waiting and the pauses are required.
type Config struct {
	// Running is the current configuration. Without a file nothing is ever reloaded.
	Running *config.Config
	// Load reads the file again.
	Load func() (*config.Config, error)
	// Settings get the live settings of the file.
	Settings *desired.Store
	// Prepare prepares everything of a version except the settings, and does not touch running
	// listeners and services. The error may be an *OutsideError, or dataplane.ErrShutdown if rdmad ends meanwhile.
	Prepare func(next *config.Config) (Prepared, error)
	// Refused gets the error of a file that is not applied: the file is invalid, something that
	// it needs is not available or its settings can't be stored (*OutsideError), a revision of
	// the settings waits to be confirmed (*desired.PendingError), or rdmad ends
	// (dataplane.ErrShutdown). It is not called again for the same error.
	Refused func(error)
	// Applied is called when a file is in force. waits has the keys of its values
	// that need a restart to be in force, in the order of the keys.
	Applied func(next *config.Config, waits []string)
	// Began and Ended are called for each reload, even for one that is
	// refused.
	Began, Ended func()
	// Waiting means that the file's settings are not applied yet because of stored
	// settings, or because they can't be stored: see desired.Store.Open.
	Waiting bool
	// FirstRetry and LastRetry are the first and the longest pause before a file is tried
	// again after an *OutsideError. LastRetry is also the pause before it is looked whether a
	// file that conflicts with stored settings still does. 0 means the defaults.
	FirstRetry, LastRetry time.Duration
	Logger                *slog.Logger
}

// Reloader applies changes of the file. Run does all the work.
type Reloader struct {
	cfg    Config
	text   []byte         // of the file at the last check; nil if it could not be read
	waits  *config.Config // the file that was refused because of stored settings; nil without one
	why    string         // the error with which waits was refused
	again  *time.Timer    // fires when the file is to be tried again, or may wait no longer
	pause  time.Duration  // before the next try
	reason string         // of the last refusal; "" after a success
}

// New returns a reloader for the current configuration. If the file has changed since Running
// was read from it, it counts as changed.
func New(cfg Config) *Reloader {
	cfg.FirstRetry, cfg.LastRetry = cmp.Or(cfg.FirstRetry, firstRetry), cmp.Or(cfg.LastRetry, lastRetry)
	r := &Reloader{cfg: cfg, text: cfg.Running.Text, again: time.NewTimer(time.Hour), pause: cfg.FirstRetry}
	r.again.Stop()
	return r
}

// Run works until ctx ends. demand requests a reload even if the file has not changed.
func (r *Reloader) Run(ctx context.Context, demand <-chan os.Signal) {
	folder := r.watch()
	var events chan fsnotify.Event
	var failures chan error
	var due <-chan time.Time
	if folder != nil {
		defer folder.close()
		events, failures, due = folder.watcher.Events, folder.watcher.Errors, folder.timer.C
		folder.event(time.Now()) // the file may have changed before it was watched
	}
	revisions := r.revisions()
	defer func() { revisions.close() }()
	defer r.again.Stop()
	if r.cfg.Waiting { // the revision may have been decided before it was watched
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
			r.cfg.Logger.Warn("rdmad may miss changes of the configuration file; SIGHUP reloads it", "error", err)
			folder.event(time.Now())
		case <-due:
			folder.due()
			events, failures = folder.watcher.Events, folder.watcher.Errors
			r.onChange()
		case <-r.again.C:
			r.retry()
			if folder != nil {
				folder.event(time.Now()) // the file may be in another folder now
			}
		case <-revisions.entries:
			r.revised()
		case <-revisions.done:
			revisions.close()
			revisions = r.revisions()
			r.revised() // a revision that was missed may be the one that the file waits for
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
		r.cfg.Logger.Warn("rdmad does not notice changes of the configuration file; SIGHUP reloads it", "error", err)
		return nil
	}
	return folder
}

func (r *Reloader) onDemand() {
	r.cfg.Began() // the caller waits for the end, even if there is nothing to reload
	defer r.cfg.Ended()
	if r.cfg.Running.File == "" {
		r.cfg.Logger.Warn("nothing to reload: rdmad was started without --config")
		return
	}
	r.text = r.read()
	r.fresh()
}

// onChange reloads the file if its text has changed. Its folder may have other changes.
func (r *Reloader) onChange() {
	text := r.read()
	if bytes.Equal(text, r.text) && (text == nil) == (r.text == nil) {
		return
	}
	r.text = text
	r.take()
}

// read returns the text of the file. It is nil if the file can't be read, or not to its end: Load reports why.
func (r *Reloader) read() []byte {
	text, err := os.ReadFile(r.cfg.Running.File)
	if err != nil {
		return nil
	}
	return text
}

// retry loads the file again after an *OutsideError, or if it waits no longer.
func (r *Reloader) retry() {
	if r.waits != nil {
		r.again.Reset(r.cfg.LastRetry)
		r.revised()
		return
	}
	if r.text == nil {
		r.text = r.read() // what load reports is no change any more
	}
	r.load()
}

// revised reloads a file that waits for other stored settings, unless these still refuse it for the same reason: a
// reload opens everything that the file names, and many revisions may come.
func (r *Reloader) revised() {
	if r.waits == nil {
		return
	}
	if err := r.cfg.Settings.CheckReload(r.waits.Layer()); err == nil || err.Error() != r.why {
		r.take()
	}
}

// wait remembers a file that was refused because of the stored settings, or of those of a connection. revised tries
// it again; again does so, too, because the end of a connection is no revision.
func (r *Reloader) wait(next *config.Config, err error) {
	if desired.Waits(err) {
		r.waits, r.why = next, err.Error()
		r.again.Reset(r.cfg.LastRetry)
	}
}

// take calls fresh between Began and Ended.
func (r *Reloader) take() {
	r.cfg.Began()
	defer r.cfg.Ended()
	r.fresh()
}

// fresh loads the file, and reports its errors even if they are those of the last time.
func (r *Reloader) fresh() {
	r.reason, r.pause = "", r.cfg.FirstRetry
	r.load()
}

// load loads the file and makes it the running configuration, or reports why not.
func (r *Reloader) load() {
	r.waits = nil
	r.again.Stop()
	next, err := r.cfg.Load()
	if errors.As(err, new(*fs.PathError)) { // no event may come when the file can be read again
		err = &OutsideError{err}
	}
	if err != nil {
		r.refuse(err)
		return
	}
	ready, err := r.cfg.Prepare(next)
	if errors.Is(err, dataplane.ErrShutdown) { // the file may be a good one
		r.cfg.Refused(err)
		r.cfg.Logger.Info("configuration not reloaded, because rdmad ends", "file", next.File)
		return
	}
	if err != nil {
		r.refuse(r.withSettings(next, err))
		return
	}
	_, _, err = r.cfg.Settings.Reload(next.Layer())
	if err != nil {
		ready.Discard()
		r.wait(next, err)
	}
	var pending *desired.PendingError
	switch {
	case errors.As(err, &pending):
		r.cfg.Refused(pending)
		r.cfg.Logger.Warn("configuration not reloaded yet", "file", next.File, "reason", pending.Error())
		return
	case errors.As(err, new(*desired.StorageError)) && r.cfg.Settings.Doubt() == nil: // there may be room later
		r.refuse(&OutsideError{err})
		return
	case err != nil:
		r.refuse(next.Blame(err))
		return
	}
	old := r.cfg.Running
	restart := unchangeable(old, next)
	waits := differing(restart, old, next)
	// Parts that need a restart keep their old values.
	next.Control, next.Metrics, next.State, next.Providers, next.Tracing, next.Fleet, next.Console = old.Control, old.Metrics, old.State, old.Providers, old.Tracing, old.Fleet, old.Console
	ready.Commit()
	r.cfg.Running, r.text, r.reason = next, next.Text, ""
	r.cfg.Applied(next, waits)
	r.cfg.Logger.Info("configuration reloaded", "file", next.File)
	if len(restart) > 0 {
		r.cfg.Logger.Warn("parts of the configuration need a restart to be in force",
			"file", next.File, "parts", strings.Join(restart, ", "))
	}
}

// withSettings adds the errors of a file's settings to those of the rest. If only the rest can
// heal by itself, the whole can't.
func (r *Reloader) withSettings(next *config.Config, err error) error {
	wrong := r.cfg.Settings.CheckReload(next.Layer())
	if wrong == nil || errors.As(wrong, new(*desired.PendingError)) {
		return err
	}
	r.wait(next, wrong)
	if outside, ok := errors.AsType[*OutsideError](err); ok {
		err = outside.Err
	}
	return errors.Join(err, next.Blame(wrong))
}

// refuse reports an error, unless it was the error of the last try. It has the file tried again
// if the cause may go away.
func (r *Reloader) refuse(err error) {
	if text := config.OneLine(err); text != r.reason {
		r.reason = text
		r.cfg.Refused(err)
		r.cfg.Logger.Error("configuration not reloaded; nothing changed", "error", text)
	}
	if errors.As(err, new(*OutsideError)) {
		r.again.Reset(r.pause)
		r.pause = min(2*r.pause, r.cfg.LastRetry)
	}
}

// unchangeable returns the names of the changed parts that need a restart.
func unchangeable(old, next *config.Config) (parts []string) {
	for _, p := range []struct {
		name      string
		old, next any
	}{
		{"control", old.Control, next.Control}, {"metrics", old.Metrics, next.Metrics}, {"state", old.State, next.State},
		{"providers", old.Providers, next.Providers}, {"tracing", old.Tracing, next.Tracing}, {"fleet", old.Fleet, next.Fleet}, {"console", old.Console, next.Console},
	} {
		if !reflect.DeepEqual(p.old, p.next) {
			parts = append(parts, p.name)
		}
	}
	return parts
}

// differing returns the keys of some parts whose values differ.
func differing(parts []string, old, next *config.Config) (keys []string) {
	values := func(c *config.Config) map[string]string {
		out := make(map[string]string)
		for _, v := range c.Values() {
			out[v.Key] = v.Value
		}
		return out
	}
	was, is := values(old), values(next)
	for _, part := range parts {
		var of []string
		for _, all := range []map[string]string{was, is} {
			for key := range all {
				before, had := was[key]
				after, has := is[key]
				if strings.HasPrefix(key, part+".") && (before != after || had != has) {
					of = append(of, key)
				}
			}
		}
		if len(of) == 0 {
			of = []string{part}
		}
		slices.Sort(of)
		keys = append(keys, slices.Compact(of)...)
	}
	return keys
}
