package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a reloader of a file, over a store.
type rig struct {
	t      *testing.T
	file   string
	store  *desired.Store
	lines  chan string // of the log
	demand chan os.Signal
	plane  *planetest.Plane

	mu      sync.Mutex
	tick    sync.Cond // at each Prepare
	err     error     // of Prepare
	tries   int       // of Prepare
	running int       // services

	discarded int
}

// ready is a version of the file that can be committed.
type ready struct {
	r *rig
	c *config.Config
}

func (r *rig) prepare(c *config.Config) (Prepared, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	r.tick.Broadcast()
	return ready{r, c}, r.err
}

// tried waits until the file was prepared n times.
func (r *rig) tried(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.tries < n {
		r.tick.Wait()
	}
}

// prepares makes Prepare return an error from now on.
func (r *rig) prepares(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (p ready) Commit() {
	p.r.lines <- fmt.Sprintf("services %d -> %d", p.r.running, len(p.c.Services))
	p.r.running = len(p.c.Services)
}

func (p ready) Discard() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.discarded++
}

// Write takes the log, a line at a time.
func (r *rig) Write(line []byte) (int, error) {
	r.lines <- strings.TrimSpace(string(line))
	return len(line), nil
}

// start runs a reloader of a file that holds text.
func start(t *testing.T, text string) *rig {
	t.Helper()
	return startChanged(t, text, text)
}

// startChanged runs a reloader of a file that held text when it was loaded,
// and holds another one when the reloader is made.
func startChanged(t *testing.T, text, now string) *rig {
	t.Helper()
	r := &rig{
		t: t, file: filepath.Join(t.TempDir(), "rdmad.yaml"), plane: &planetest.Plane{},
		lines: make(chan string, 100), demand: make(chan os.Signal),
	}
	r.tick.L = &r.mu
	initial := rpcrdma.DefaultSettings()
	var err error
	if r.store, err = desired.New(r.plane, slog.New(slog.DiscardHandler), &initial, 0); err != nil {
		t.Fatal(err)
	}
	r.write(text)
	running := r.load()
	if _, _, err := r.store.Reload(running.Layer()); err != nil {
		t.Fatal(err)
	}
	r.running = len(running.Services)
	r.write(now)
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	reloader := New(Config{
		Running: running,
		Load: func() (*config.Config, error) {
			return config.Load(r.file, config.Options{Providers: []string{"softiwarp"}})
		},
		Settings: r.store,
		Prepare:  r.prepare,
		Refused:  func(error) {}, Applied: func(*config.Config, []string) {}, Began: func() {}, Ended: func() {},
		FirstRetry: time.Millisecond, LastRetry: 4 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{ReplaceAttr: noTime})),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		reloader.Run(ctx, r.demand)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (r *rig) load() *config.Config {
	r.t.Helper()
	c, err := config.Load(r.file, config.Options{Providers: []string{"softiwarp"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// write replaces the file as an editor does.
func (r *rig) write(text string) {
	r.t.Helper()
	temp := r.file + "~"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(temp, r.file); err != nil {
		r.t.Fatal(err)
	}
}

// hup requests a reload and returns once it has begun.
func (r *rig) hup() { r.demand <- syscall.SIGHUP }

// log expects lines, of which each contains its part of want.
func (r *rig) log(want ...string) {
	r.t.Helper()
	for _, w := range want {
		select {
		case line := <-r.lines:
			if w = strings.ReplaceAll(w, "FILE", r.file); !strings.Contains(line, w) {
				r.t.Fatalf("log has\n%s\nwant\n%s", line, w)
			}
		case <-time.After(30 * time.Second):
			r.t.Fatalf("nothing logged, want %s", w)
		}
	}
}

const echo = "services: [{name: e, echo: {}}]\n"

// sendMax returns the effective inline.send_max with its origin.
func (r *rig) sendMax() string {
	r.t.Helper()
	v, err := r.store.Get(settings.Scope{})
	if err != nil {
		r.t.Fatal(err)
	}
	o := v.Origins[live.InlineSendMax]
	return strings.TrimSpace(v.Values.Format(live.InlineSendMax) + " " + o.Source + " " + strings.TrimPrefix(o.Detail, filepath.Dir(r.file)+"/"))
}

func TestOnDemand(t *testing.T) {
	r := start(t, echo)
	r.hup()
	r.log("services 1 -> 1", "configuration reloaded")
	if r.store.Revision() != 0 {
		t.Errorf("revision %d after nothing changed", r.store.Revision())
	}
	r.write("settings: {inline: {send_max: 2048}}\nservices: [{name: e, echo: {}}, {name: f, echo: {}}]\n")
	r.log("services 1 -> 2", "configuration reloaded")
	if got := r.sendMax(); got != "2048 config rdmad.yaml:1" {
		t.Errorf("inline.send_max %s", got)
	}
}

// TestEndMeanwhile: a file is not refused when the end of rdmad cuts its reload off.
func TestEndMeanwhile(t *testing.T) {
	r := start(t, echo)
	r.prepares(dataplane.ErrShutdown)
	r.hup()
	r.log(`level=INFO msg="configuration not reloaded, because rdmad ends" file=FILE`)
}

func TestChangedFile(t *testing.T) {
	r := start(t, echo)
	for i, how := range []func(text string){
		r.write,
		func(text string) { // in place, in pieces
			f, err := os.Create(r.file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, b := range []byte(text) {
				if _, err := f.Write([]byte{b}); err != nil {
					t.Fatal(err)
				}
			}
		},
		func(text string) { // moved away, then made anew
			if err := os.Rename(r.file, r.file+".bak"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		func(text string) { // through a link
			other := filepath.Join(filepath.Dir(r.file), "other")
			if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(r.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(other, r.file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		size := 2048 + i
		how(fmt.Sprintf("%s\nsettings: {inline: {send_max: %d}}\n", echo, size))
		r.log("services 1 -> 1", "configuration reloaded")
		if got, want := r.sendMax(), fmt.Sprintf("%d config rdmad.yaml:3", size); got != want {
			t.Errorf("change %d: inline.send_max %s, want %s", i, got, want)
		}
	}
}

// TestRefused: the log has one line with the place, and nothing changes.
func TestRefused(t *testing.T) {
	r := start(t, echo)
	c := settings.Change{}
	c.Set.Set(live.CreditsMin, 20)
	if _, err := r.store.Set(c, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"settings:\n  inline: {send_max: 1}\n":                               `error="FILE:2: settings.inline.send_max: must be between 1024 and 262144 bytes (is 1)`,
		"settings:\n  inline: {sendmax: 2048}\n":                             `error="FILE:2: settings.inline.sendmax: unknown key`,
		"settings:\n  inline: {send_max: 2048}\n  credits:\n    max: 10\n":   `error="FILE:4: settings.credits.max: credits.min 20 (global) would be above credits.max 10 (config)"`,
		"settings: {inline: {send_max: 2048}}\ncontrol: {listen: \"x:1\"}\n": `error="FILE:2: control.listen: `,
	} {
		r.write(text)
		r.log(want)
		if got := r.sendMax(); got != "4096 default" || r.store.Revision() != 1 {
			t.Errorf("%q: inline.send_max %s, revision %d", text, got, r.store.Revision())
		}
	}
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	r.log("configuration not reloaded; nothing changed")
	r.write("settings: {inline: {send_max: 2048}}\n")
	r.log("services 1 -> 1", "configuration reloaded")
	if got := r.sendMax(); got != "2048 config rdmad.yaml:1" {
		t.Errorf("inline.send_max %s", got)
	}
}

// TestRestartNeeded: parts that need a restart are named at each reload until rdmad is
// restarted. The rest is applied.
func TestRestartNeeded(t *testing.T) {
	r := start(t, echo)
	r.write(echo + "control: {listen: \"127.0.0.1:1\"}\nstate: {path: other}\nconsole: {listen: \"127.0.0.1:2\"}\nproviders: {rdmacore: {busy_poll: 1ms}}\nsettings: {inline: {send_max: 2048}}\ntracing: {otlp_endpoint: \"http://127.0.0.1:1\"}\n")
	r.log("services 1 -> 1", "configuration reloaded", `need a restart to be in force" file=FILE parts="control, state, providers, tracing, console"`)
	if got := r.sendMax(); got != "2048 config rdmad.yaml:6" {
		t.Errorf("inline.send_max %s", got)
	}
	r.hup()
	r.log("services 1 -> 1", "configuration reloaded", "control, state, providers, tracing, console")
	r.write(echo)
	r.log("services 1 -> 1", "configuration reloaded")
	r.hup()
	r.log("services 1 -> 1", "configuration reloaded")
}

// TestKeysThatWait: the keys whose values need a restart are named.
func TestKeysThatWait(t *testing.T) {
	parse := func(text string) *config.Config {
		c, err := config.Parse("rdmad.yaml", []byte(text), config.Options{Providers: []string{"softiwarp"}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := parse(echo + "control: {roles: [{role: viewer, uids: [7]}]}\n")
	next := parse(echo + "control: {listen: \"127.0.0.1:1\"}\nstate: {path: other}\nlimits: {connections: 7}\n")
	got := strings.Join(differing(unchangeable(old, next), old, next), " ")
	if want := "control.listen control.roles[0].role control.roles[0].uids state.path"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := differing(unchangeable(old, old), old, old); got != nil {
		t.Error(got)
	}
}

// TestTriedAgain: a file that needs something from outside is tried again until it can be had.
// The log has one line for each reason, not for each try.
func TestTriedAgain(t *testing.T) {
	r := start(t, echo)
	r.prepares(&OutsideError{errors.New("port in use")})
	r.write("services: [{name: e, echo: {}}, {name: f, echo: {}}]\nsettings: {inline: {send_max: 2048}}\n")
	r.log(`error="port in use"`)
	r.tried(5)
	if got := r.sendMax(); got != "4096 default" {
		t.Errorf("inline.send_max %s", got)
	}
	r.prepares(&OutsideError{errors.New("no such directory")})
	r.log(`error="no such directory"`)
	r.prepares(nil)
	r.log("services 1 -> 2", "configuration reloaded")
	if got := r.sendMax(); got != "2048 config rdmad.yaml:2" {
		t.Errorf("inline.send_max %s", got)
	}
}

// TestEveryError: errors of the settings and of the rest are reported together. As the settings
// stay wrong, the file is not tried again.
func TestEveryError(t *testing.T) {
	r := start(t, echo)
	c := settings.Change{}
	c.Set.Set(live.CreditsMin, 20)
	if _, err := r.store.Set(c, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	r.prepares(&OutsideError{errors.New("port in use")})
	r.write(echo + "settings: {credits: {max: 10}}\n")
	r.log(`error="port in use; FILE:2: settings.credits.max: credits.min 20 (global) would be above credits.max 10 (config)"`)
	if _, err := r.store.Set(settings.Change{Unset: settings.KeySet(0).With(live.CreditsMin)}, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	r.log(`error="port in use"`) // the stored settings have changed
	r.prepares(nil)
	r.log("services 1 -> 1", "configuration reloaded")
}

func TestWithoutAFile(t *testing.T) {
	lines := make(chan string, 1)
	r := &rig{t: t, lines: lines}
	store, err := desired.New(&planetest.Plane{}, slog.New(slog.DiscardHandler), new(rpcrdma.DefaultSettings()), 0)
	if err != nil {
		t.Fatal(err)
	}
	reloader := New(Config{Running: config.Default(""), Settings: store, Began: func() {}, Ended: func() {}, Logger: slog.New(slog.NewTextHandler(r, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	demand, done := make(chan os.Signal), make(chan struct{})
	go func() {
		defer close(done)
		reloader.Run(ctx, demand)
	}()
	demand <- syscall.SIGHUP
	r.log("nothing to reload: rdmad was started without --config")
	cancel()
	<-done
}

// TestChangedWhileStarting: the file changes between the time when rdmad reads it and the time
// when rdmad watches it.
func TestChangedWhileStarting(t *testing.T) {
	r := startChanged(t, echo, "services: [{name: e, echo: {}}, {name: f, echo: {}}]\n")
	r.log("services 1 -> 2", "configuration reloaded")
}

// TestFolderReplaced: the folder is replaced by a rename, and by a new one after its removal.
func TestFolderReplaced(t *testing.T) {
	r := start(t, echo)
	folder := filepath.Dir(r.file)
	next := "services: [{name: e, echo: {}}, {name: f, echo: {}}]\n"
	r.write(next) // seen once the folder is watched
	r.log("services 1 -> 2", "configuration reloaded")
	if err := os.Rename(folder, folder+".old"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder + ".old") })
	r.log("no such file or directory")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(echo)
	r.log("services 2 -> 1", "configuration reloaded")
	r.write(next)
	r.log("services 1 -> 2", "configuration reloaded")
}

// TestLinkToAFileElsewhere: its folder is watched as well.
func TestLinkToAFileElsewhere(t *testing.T) {
	r := start(t, echo)
	link, elsewhere := r.file, filepath.Join(t.TempDir(), "real.yaml")
	r.file = elsewhere
	r.write("services: [{name: e, echo: {}}, {name: f, echo: {}}]\n")
	if err := os.Symlink(elsewhere, link+".link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".link", link); err != nil {
		t.Fatal(err)
	}
	r.log("services 1 -> 2", "configuration reloaded")
	r.write(echo)
	r.log("services 2 -> 1", "configuration reloaded")
}

// TestFileIsBackWithoutAnEvent: a file that can't be read is tried again, because nothing may say
// that it can be read again. Then its changes are noticed.
func TestFileIsBackWithoutAnEvent(t *testing.T) {
	r := start(t, echo)
	mount := filepath.Join(t.TempDir(), "mount")
	target := &rig{t: t, file: filepath.Join(mount, "real.yaml")}
	if err := os.Symlink(target.file, r.file+".link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.file+".link", r.file); err != nil {
		t.Fatal(err)
	}
	r.log("configuration not reloaded; nothing changed")
	if err := os.Mkdir(mount, 0o700); err != nil {
		t.Fatal(err)
	}
	target.write("services: [{name: e, echo: {}}, {name: f, echo: {}}]\n")
	r.log("services 1 -> 2", "configuration reloaded")
	for { // until its folder is watched
		target.write(echo)
		select {
		case line := <-r.lines:
			r.log("configuration reloaded")
			if line != "services 2 -> 1" {
				t.Errorf("log has %s", line)
			}
			return
		case <-time.After(time.Second):
		}
	}
}

// TestUnreadableFileIsReportedOnce: a file that can be opened and not read, such as a directory in its place, is
// tried again in silence. So is one that has mistakes when it is back.
func TestUnreadableFileIsReportedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rdmad.yaml")
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	refused := 0
	r := New(Config{
		Running: &config.Config{File: file, Text: []byte(echo)}, Settings: newStore(t), Logger: slog.New(slog.DiscardHandler),
		Load:    func() (*config.Config, error) { return config.Load(file, config.Options{}) },
		Refused: func(error) { refused++ }, Began: func() {}, Ended: func() {},
	})
	defer r.again.Stop()
	for want, begin := range []func(){r.onChange, r.onDemand} {
		begin()
		for range 2 {
			r.retry()
			r.onChange() // as after each try
		}
		if refused != want+1 {
			t.Errorf("reported %d times, want %d", refused, want+1)
		}
	}
	if r.pause != 8*r.cfg.FirstRetry {
		t.Errorf("the pause after two tries is %v", r.pause)
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte("nonsense: 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r.retry()
	r.onChange()
	if refused != 3 {
		t.Errorf("reported %d times with a mistake, want 3", refused)
	}
}

// TestDemandWithoutFile: a reload without a file has no effect, and its end is reported.
func TestDemandWithoutFile(t *testing.T) {
	said := make(chan string, 2)
	r := New(Config{
		Running: &config.Config{}, Settings: newStore(t), Logger: slog.New(slog.DiscardHandler),
		Began: func() { said <- "began" }, Ended: func() { said <- "ended" },
	})
	ctx, cancel := context.WithCancel(t.Context())
	demand, done := make(chan os.Signal), make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, demand)
	}()
	demand <- syscall.SIGHUP
	if first, second := <-said, <-said; first != "began" || second != "ended" {
		t.Errorf("a reload %s and then %s", first, second)
	}
	cancel()
	<-done
}

func newStore(t *testing.T) *desired.Store {
	t.Helper()
	s, err := desired.New(&planetest.Plane{}, slog.New(slog.DiscardHandler), new(rpcrdma.DefaultSettings()), 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDiskFull: a file whose settings can't be stored is tried again.
func TestDiskFull(t *testing.T) {
	r := start(t, echo)
	dir := t.TempDir()
	if _, err := r.store.Open(filepath.Join(dir, "settings.db"), r.load().Layer()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	spare := filepath.Join(dir, ".settings.db.spare") // to which settings are written
	if err := os.MkdirAll(filepath.Join(spare, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.write("services: [{name: e, echo: {}}, {name: f, echo: {}}]\nsettings: {inline: {send_max: 2048}}\n")
	r.log("not changed, as it could not be stored")
	r.tried(3)
	if err := os.Rename(spare, filepath.Join(dir, "away")); err != nil { // in one step, as the next try may be under way
		t.Fatal(err)
	}
	r.log("services 1 -> 2", "configuration reloaded")
	if got := r.sendMax(); got != "2048 config rdmad.yaml:2" {
		t.Errorf("inline.send_max %s", got)
	}
}
