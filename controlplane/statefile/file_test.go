package statefile

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fileLayer is what a configuration file says.
func fileLayer(name string, pairs ...any) settings.FileLayer {
	f := settings.FileLayer{Name: name}
	for i := 0; i < len(pairs); i += 2 {
		f.Values.Set(pairs[i].(settings.Key), uint32(pairs[i+1].(int)))
		f.Lines[pairs[i].(settings.Key)] = i + 1
	}
	return f
}

func layer(revision uint32, k settings.Key, value uint32) (l settings.Layer) {
	l.Values.Set(k, value)
	l.Set[k] = revision
	return l
}

var born = time.Date(2026, 11, 20, 9, 30, 0, 123456789, time.UTC)

// entry is a revision that sets ddp.min_chunk at a listener's scope to its
// own number.
func entry(revision uint32) *history.Entry {
	scope := settings.Scope{Kind: settings.Listener, Name: "nfs"}
	e := &history.Entry{
		Revision: revision, Time: born.Add(time.Duration(revision) * time.Minute), Comment: "why",
		Actor: history.Actor{Name: "ann", From: "192.0.2.1:5"}, Scope: scope,
	}
	e.Set.Set(live.DDPMinChunk, revision)
	d := settings.Delta{Scope: scope, After: layer(revision, live.DDPMinChunk, revision)}
	if revision > 1 {
		d.Before = layer(revision-1, live.DDPMinChunk, revision-1)
	}
	e.Step.Deltas = []settings.Delta{d}
	return e
}

// create makes a file and opens it.
func create(t testing.TB, path string) *File {
	t.Helper()
	must(t, Create(path, fileLayer("rdmad.yaml", live.CreditsMax, 32)))
	f, _, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func commit(t testing.TB, f *File, r *Record) {
	t.Helper()
	must(t, f.Commit(r))
}

// contents reads without the lock, as a second process does.
func contents(t testing.TB, path string) *Contents {
	t.Helper()
	c := have(Read(path))(t)
	return c
}

func TestNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	if _, _, err := Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	temporary := filepath.Join(filepath.Dir(path), ".settings.db123")
	must(t, os.WriteFile(temporary, []byte("left by a crash"), 0o600))
	create(t, path)
	c := contents(t, path)
	want := fileLayer("rdmad.yaml", live.CreditsMax, 32)
	if c.Revision != 0 || !c.File.Equal(&want) || c.Seen.Differ(&want) != 0 || len(c.Layers) != 0 || len(c.Entries) != 0 {
		t.Errorf("%+v", c)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(segments(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRecordsAreReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	want := []*history.Entry{entry(1), entry(2), entry(3), entry(4)}
	file := want[1]
	file.Kind, file.Scope, file.Set, file.Unset = history.Reload, settings.Scope{}, settings.Values{}, settings.KeySet(0).With(live.CreditsMax)
	file.Step = settings.Step{File: &settings.FileDelta{
		Before: fileLayer("rdmad.yaml", live.CreditsMax, 32), After: fileLayer("other.yaml", live.RemoteInvalidationUse, 1),
	}}
	peer := fileLayer("", live.CreditsWeight, 3)
	file.Step.File.After.Scopes = map[settings.Scope]settings.FileValues{
		{Kind: settings.Peer, Prefix: netip.MustParsePrefix("2001:db8::/32")}: {Values: peer.Values, Lines: peer.Lines},
	}
	want[2].Step.Deltas[0].Before = want[0].Step.Deltas[0].After
	want[3].Status, want[3].Deadline, want[3].Kind, want[3].Target = history.Pending, want[3].Time.Add(time.Minute), history.Rollback, 1
	for _, e := range want {
		r := &Record{Entry: e}
		if e == file {
			r.Seen = &e.Step.File.After
		}
		commit(t, f, r)
	}
	check := func(when string) {
		t.Helper()
		c := contents(t, path)
		if c.Revision != 4 || !reflect.DeepEqual(c.Entries, want) {
			t.Errorf("%s: revision %d, entries\n%+v, want\n%+v", when, c.Revision, c.Entries, want)
		}
		if after := &file.Step.File.After; !c.File.Equal(after) || c.Seen.Differ(after) != 0 {
			t.Errorf("%s: file %+v, seen %v", when, c.File, c.Seen)
		}
		scope := settings.Scope{Kind: settings.Listener, Name: "nfs"}
		if len(c.Layers) != 1 || c.Layers[scope] != layer(4, live.DDPMinChunk, 4) {
			t.Errorf("%s: scopes %v", when, c.Layers)
		}
	}
	check("written")
	amended := *want[3]
	amended.Status = history.Confirmed
	want[3] = &amended
	commit(t, f, &Record{Amend: &amended})
	check("amended")
	must(t, f.Close())
	again, _, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check("opened again")
	commit(t, again, &Record{Entry: entry(5), Drop: []uint32{1, 2}})
	if c := contents(t, path); c.Revision != 5 || len(c.Entries) != 3 || c.Entries[0].Revision != 3 {
		t.Errorf("after dropping: %+v", c.Entries)
	}
}

// TestSegments: older entries are in segments, which a revision doesn't write anew
// and which go with the entries in them.
func TestSegments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	const revisions, kept = 400, 150
	f.limit = 16 << 10
	names := map[string]bool{}
	for revision := uint32(1); revision <= revisions; revision++ {
		r := &Record{Entry: entry(revision)}
		if revision > kept {
			r.Drop = []uint32{revision - kept}
		}
		commit(t, f, r)
		files, err := filepath.Glob(filepath.Join(segments(path), "*"))
		if err != nil || len(files) > 6 {
			t.Fatalf("revision %d: %q, %v", revision, files, err)
		}
		for _, name := range files {
			names[name] = true
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 32<<10 {
			t.Fatalf("revision %d: %d bytes, %v", revision, info.Size(), err)
		}
	}
	if len(names) < 5 {
		t.Errorf("%d segments in %d revisions", len(names), revisions)
	}
	c := contents(t, path)
	if len(c.Entries) != kept {
		t.Fatalf("%d entries", len(c.Entries))
	}
	for i, e := range c.Entries {
		if want := entry(revisions - kept + 1 + uint32(i)); !reflect.DeepEqual(e, want) {
			t.Fatalf("%+v, want %+v", e, want)
		}
	}
}

// TestConnectionsAreNotStored: their revisions are, without what they set.
func TestConnectionsAreNotStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	e := entry(1)
	e.Scope = settings.Scope{Kind: settings.Connection, Name: "7"}
	e.Step.Deltas[0].Scope = e.Scope
	commit(t, f, &Record{Entry: e})
	c := contents(t, path)
	if c.Revision != 1 || len(c.Layers) != 0 || len(c.Entries) != 1 || c.Entries[0].Scope != e.Scope || c.Entries[0].Step.Deltas != nil {
		t.Errorf("%+v, entry %+v", c, c.Entries[0])
	}
}

func TestScopeThatSaysNothingGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	commit(t, f, &Record{Entry: entry(1)})
	e := entry(2)
	e.Step.Deltas[0].After = settings.Layer{}
	commit(t, f, &Record{Entry: e})
	if c := contents(t, path); len(c.Layers) != 0 || c.Revision != 2 {
		t.Errorf("%+v", c)
	}
}

func TestSecondWriterIsKeptOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	create(t, path)
	if f, _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, %v", f, err)
	}
}

// TestFilesAreWrittenOver: the file and its spare are written over, and grow by whole
// blocks.
func TestFilesAreWrittenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	inodes, sizes := map[uint64]bool{}, map[int64]bool{}
	for revision := uint32(1); revision <= 16; revision++ {
		commit(t, f, &Record{Entry: entry(revision)})
		info := have(os.Stat(path))(t)
		inodes[info.Sys().(*syscall.Stat_t).Ino] = true
		sizes[info.Size()] = true
		if info.Size()%block != 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%d bytes, %v", info.Size(), info.Mode())
		}
	}
	if len(inodes) != 2 || len(sizes) < 2 {
		t.Errorf("%d files of %d sizes", len(inodes), len(sizes))
	}
}

// TestElements: what an import stores beside a revision stays until a record says that it is done.
func TestElements(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	check := func(want string) {
		t.Helper()
		if got := string(contents(t, path).Elements); got != want {
			t.Errorf("elements %s, want %s", got, want)
		}
	}
	check("")
	commit(t, f, &Record{Entry: entry(1), Elements: []byte(`{"listeners": []}`)})
	check(`{"listeners":[]}`)
	commit(t, f, &Record{Entry: entry(2)})
	check(`{"listeners":[]}`)
	commit(t, f, &Record{Elements: []byte(`{"imports":2}`)})
	check(`{"imports":2}`)
	commit(t, f, &Record{ElementsDone: true})
	check("")
}

// TestMovedAwayAndBack: what the error advises to move away is whole when it is moved back, although a
// new file was made and opened meanwhile.
func TestMovedAwayAndBack(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "settings.db")
	f := create(t, path)
	f.limit = 4 << 10
	for revision := uint32(1); revision <= 40; revision++ {
		commit(t, f, &Record{Entry: entry(revision)})
	}
	must(t, f.Close())
	before := contents(t, path)
	advice := (&RefusedError{Path: path, Err: &NewerError{format + 1}}).Error()
	if want := "move it and settings.history away"; !strings.Contains(advice, want) {
		t.Fatalf("%q lacks %q", advice, want)
	}
	names := []string{filepath.Base(path), filepath.Base(segments(path))}
	for _, name := range names {
		must(t, os.Rename(filepath.Join(dir, name), filepath.Join(away, name)))
	}
	must(t, create(t, path).Close())
	for _, name := range names {
		must(t, os.RemoveAll(filepath.Join(dir, name)))
		must(t, os.Rename(filepath.Join(away, name), filepath.Join(dir, name)))
	}
	if after := contents(t, path); !reflect.DeepEqual(before, after) {
		t.Errorf("%+v became %+v", before, after)
	}
}

// TestNameOfTheDirectory: what a crash left behind goes also if the directory's name has characters that have a meaning in
// patterns.
func TestNameOfTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a]")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "settings.db")
	must(t, create(t, path).Close())
	strays := []string{filepath.Join(segments(path), ".x.spare"), filepath.Join(dir, ".settings.db1")}
	for _, name := range strays {
		must(t, os.WriteFile(name, nil, 0o600))
	}
	f, _, err := Open(path)
	must(t, err)
	defer f.Close()
	for _, name := range strays {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
