package desired_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// copyingDisk copies the file before and after each write: what a process
// leaves that is killed there.
type copyingDisk struct {
	desired.Disk
	path string

	mu            sync.Mutex // a rollback may come from the clock
	before, after []byte
	err           error
}

func (d *copyingDisk) Commit(r *desired.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err1, err2 error
	d.before, err1 = os.ReadFile(d.path)
	err := d.Disk.Commit(r)
	d.after, err2 = os.ReadFile(d.path)
	d.err = errors.Join(d.err, err1, err2)
	return err
}

// forget drops the copies.
func (d *copyingDisk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.after = nil, nil
}

// copies are those of the last write since forget.
func (d *copyingDisk) copies() (before, after []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.before, d.after, d.err
}

// crashModel is a store, and what it must be: the state after each revision.
type crashModel struct {
	t     *rapid.T
	dir   string
	n     int // files so far
	path  string
	store *desired.Store
	disk  *copyingDisk
	file  settings.FileLayer // as it is now
	seen  settings.FileLayer // as it was when it was last taken

	states  []settings.Dump
	pending uint32
	until   time.Time
}

func (m *crashModel) revision() uint32 { return uint32(len(m.states) - 1) }

// open opens a file that holds data; nil stands for none.
func (m *crashModel) open(data []byte) {
	m.n++
	m.path = filepath.Join(m.dir, fmt.Sprint(m.n, ".db"))
	if data != nil {
		if err := os.WriteFile(m.path, data, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	plane := &planetest.Plane{}
	initial := rpcrdma.DefaultSettings()
	var err error
	if m.store, err = desired.New(plane, slog.New(slog.DiscardHandler), &initial, 0); err != nil {
		m.t.Fatal(err)
	}
	plane.Listen("nfs", "127.0.0.1:20049")
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "10.1.2.3:1001"})
	if _, err := m.store.Open(m.path, m.file); err != nil {
		m.t.Fatal(err)
	}
	m.disk = &copyingDisk{Disk: m.store.Disk(), path: m.path}
	m.store.UseDisk(m.disk)
}

// happened notes a revision, whose state must be want unless that is nil.
func (m *crashModel) happened(want *settings.Dump) {
	d := m.store.Dump()
	if want != nil && !equalDumps(d, *want) {
		m.t.Fatalf("revision %d is\n%+v, want\n%+v", d.Revision, d, *want)
	}
	m.states = append(m.states, d)
	m.pending = 0
}

// settle has the window end if its time has come.
func (m *crashModel) settle() {
	if m.pending != 0 && !time.Now().Before(m.until) {
		m.happened(&m.states[m.pending-1])
	}
}

// check holds the store, and what it would leave when killed now, against the
// model.
func (m *crashModel) check() {
	if d := m.store.Dump(); d.Revision != m.revision() || !equalDumps(d, m.states[m.revision()]) {
		m.t.Fatalf("%+v, want revision %d\n%+v", d, m.revision(), m.states[m.revision()])
	}
	p := m.store.Pending()
	if (p != nil) != (m.pending != 0) || p != nil && p.Revision != m.pending {
		m.t.Fatalf("%+v waits, want %d", p, m.pending)
	}
	data, err := os.ReadFile(m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	m.checkFile(data, m.revision())
}

func (m *crashModel) checkFile(data []byte, revision uint32) {
	path := filepath.Join(m.dir, "crashed.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		m.t.Fatal(err)
	}
	c, err := statefile.Read(path)
	if err != nil {
		m.t.Fatal(err)
	}
	s, err := settings.NewState(live.Of(new(rpcrdma.DefaultSettings())), 0)
	if err == nil {
		s, err = s.Restore(c.Revision, c.File, c.Fleet, c.Layers)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	if d := s.Dump(); d.Revision != revision || !equalDumps(d, m.states[revision]) {
		m.t.Fatalf("the file has %+v, want revision %d\n%+v", d, revision, m.states[revision])
	}
}

// step does something and holds every file it leaves against the model.
func (m *crashModel) step(do func()) {
	before := m.revision()
	m.disk.forget()
	do()
	left, now, err := m.disk.copies()
	if err != nil {
		m.t.Fatal(err)
	}
	if left != nil {
		m.checkFile(left, before)
		m.checkFile(now, m.revision())
	}
	m.check()
}

func (m *crashModel) set() {
	c := settings.Change{}
	var err error
	scope := rapid.SampledFrom([]string{"global", "listener/nfs", "peer/10.0.0.0/8", "peer/10.1.2.3", "connection/1"}).Draw(m.t, "scope")
	if c.Scope, err = settings.ParseScope(scope); err != nil {
		m.t.Fatal(err)
	}
	k := rapid.SampledFrom([]settings.Key{live.DDPMinChunk, live.CreditsMin, live.CreditsMax, live.RemoteInvalidationUse}).Draw(m.t, "key")
	if rapid.IntRange(0, 3).Draw(m.t, "unset") == 0 {
		c.Unset = c.Unset.With(k)
	} else {
		c.Set.Set(k, rapid.Uint32Range(0, 70).Draw(m.t, "value"))
	}
	o := desired.Options{Comment: "why"}
	if rapid.IntRange(0, 3).Draw(m.t, "confirm") == 0 {
		o.ConfirmWithin = time.Minute
	}
	r, err := m.store.Set(c, o)
	var pending *desired.PendingError
	if m.pending != 0 && !errors.As(err, &pending) {
		m.t.Fatalf("in a confirm window: %v", err)
	}
	if err != nil || r.Unchanged {
		return
	}
	m.happened(nil)
	if o.ConfirmWithin != 0 {
		m.pending, m.until = m.revision(), time.Now().Add(time.Minute)
	}
}

func (m *crashModel) confirm() {
	revision := rapid.Uint32Range(0, m.revision()+1).Draw(m.t, "revision")
	if m.pending != 0 && rapid.Bool().Draw(m.t, "right") {
		revision = m.pending
	}
	err := m.store.Confirm(revision)
	if (err == nil) != (m.pending != 0 && revision == m.pending) {
		m.t.Fatalf("confirm of %d while %d waits: %v", revision, m.pending, err)
	}
	if err == nil {
		m.pending = 0
	}
}

func (m *crashModel) rollback() {
	revision := rapid.Uint32Range(0, m.revision()+1).Draw(m.t, "revision")
	current := m.revision()
	r, err := m.store.Rollback(revision, desired.Options{})
	same := revision == current && current > 0 && m.pending == 0
	if (err == nil) != (revision < current || same) {
		m.t.Fatalf("rollback to %d of %d: %v", revision, current, err)
	}
	if (same || m.pending != 0) && r.Unchanged != same {
		m.t.Fatalf("rollback to %d of %d: unchanged %v", revision, current, r.Unchanged)
	}
	if r.Unchanged {
		m.check()
		return
	}
	if err == nil {
		m.happened(&m.states[revision])
	}
}

// edit changes the configuration file, which is then reloaded or not.
func (m *crashModel) edit() {
	m.file = fileLayer(live.InlineSendMax, 1024*rapid.IntRange(1, 3).Draw(m.t, "send_max"))
	if scope := rapid.SampledFrom([]string{"", "listener/nfs", "peer/10.0.0.0/8"}).Draw(m.t, "file scope"); scope != "" {
		parsed, err := settings.ParseScope(scope)
		if err != nil {
			m.t.Fatal(err)
		}
		var v settings.FileValues
		v.Values.Set(live.DDPMinChunk, rapid.Uint32Range(0, 2).Draw(m.t, "min_chunk"))
		m.file.Scopes = map[settings.Scope]settings.FileValues{parsed: v}
	}
	if rapid.Bool().Draw(m.t, "reload") {
		m.reload()
	}
}

func (m *crashModel) reload() {
	_, changed, err := m.store.Reload(m.file)
	differs := m.file.Differ(&m.seen) != 0
	if changed != (differs && m.pending == 0) || (err != nil) != (differs && m.pending != 0) {
		m.t.Fatalf("reload: %v, %v", changed, err)
	}
	if changed {
		m.seen = m.file
		m.happened(nil)
	}
}

// crash goes on with what a process leaves that was killed between two steps.
func (m *crashModel) crash() {
	data, err := os.ReadFile(m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.store.Close(); err != nil {
		m.t.Fatal(err)
	}
	time.Sleep(time.Duration(rapid.IntRange(0, 70).Draw(m.t, "down")) * time.Second)
	m.open(data)
	if m.pending != 0 && !time.Now().Before(m.until) { // rolled back before the file is looked at
		m.states = append(m.states, m.states[m.pending-1])
		m.pending = 0
	}
	if m.pending == 0 && m.file.Differ(&m.seen) != 0 {
		m.seen = m.file
		m.happened(nil)
	}
}

func (m *crashModel) wait() {
	time.Sleep(time.Duration(rapid.IntRange(1, 40).Draw(m.t, "seconds")) * time.Second)
	synctest.Wait()
	m.settle()
}

// noDeadline hides a test's deadline, which may not be asked for in a bubble.
type noDeadline struct{ rapid.TB }

// TestCrashes makes random changes, confirms, rollbacks and reloads, and
// kills the process between any two steps, before and after every write. It is
// always at a revision that was answered, or the one on its way, as a whole.
func TestCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		rapid.Check(noDeadline{t}, func(t *rapid.T) {
			m := &crashModel{t: t, dir: filepath.Join(dir, fmt.Sprint(time.Now().UnixNano()))}
			if err := os.MkdirAll(m.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(m.dir)
			m.open(nil)
			m.happened(nil)
			steps := []func(){m.set, m.set, m.set, m.confirm, m.rollback, m.edit, m.crash, m.wait}
			for range rapid.IntRange(1, 10).Draw(t, "steps") {
				m.step(rapid.SampledFrom(steps).Draw(t, "step"))
			}
			entries := m.store.History(0, 0)
			if len(entries) != int(m.revision()) {
				t.Fatalf("%d revisions in the history of %d", len(entries), m.revision())
			}
			for i, e := range entries {
				if e.Revision != m.revision()-uint32(i) || (e.Status == history.Pending) != (e.Revision == m.pending) {
					t.Fatalf("entry %+v, %d waits", e, m.pending)
				}
			}
			if err := m.store.Close(); err != nil {
				t.Fatal(err)
			}
		})
	})
}
