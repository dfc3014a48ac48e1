package statefile

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/controlplane/history"
)

// limitFiles lets no file of this process grow beyond so many bytes until
// the function that it returns is called.
func limitFiles(t *testing.T, bytes uint64) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	set := func(l unix.Rlimit) {
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &l))
	}
	set(unix.Rlimit{Cur: bytes, Max: old.Max})
	return func() { set(old) }
}

// childVariable is set in the process of inOwnProcess.
const childVariable = "RDMAD_TEST_OWN_PROCESS"

// inOwnProcess runs the calling test once more in a process of its own, and
// returns true there. A limit on the size of files is one of the process, and go
// test keeps a log in a file of this one. In the other process a write beyond the
// limit fails like one on a full disk, instead of ending the process.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childVariable) != "" {
		signal.Ignore(unix.SIGXFSZ)
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestDiskFull: a write that finds no room is refused, leaves what was
// stored, and the next one is made once there is room.
func TestDiskFull(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	commit(t, f, &Record{Entry: entry(1)})
	before := contents(t, path)
	for _, room := range []uint64{0, 1, 100, 500} {
		restore := limitFiles(t, room)
		err := f.Commit(&Record{Entry: entry(2)})
		restore()
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Fatalf("with room for %d bytes: %v", room, err)
		}
		if after := contents(t, path); !reflect.DeepEqual(before, after) {
			t.Fatalf("with room for %d bytes:\n%+v became\n%+v", room, before, after)
		}
	}
	commit(t, f, &Record{Entry: entry(2)})
	if c := contents(t, path); c.Revision != 2 || len(c.Entries) != 2 {
		t.Errorf("afterwards: %+v", c)
	}
}

// TestFailedSyncIsTakenBack: a transaction that was written although it
// failed is undone.
func TestFailedSyncIsTakenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	commit(t, f, &Record{Entry: entry(1)})
	before := contents(t, path)
	failure := errors.New("no sync")
	f.replace = func(path string, data []byte) error {
		f.replace = replace
		return errors.Join(failure, replace(path, data))
	}
	if err := f.Commit(&Record{Entry: entry(2)}); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if after := contents(t, path); !reflect.DeepEqual(before, after) {
		t.Errorf("%+v became\n%+v", before, after)
	}
	commit(t, f, &Record{Entry: entry(2)})
	if c := contents(t, path); c.Revision != 2 {
		t.Errorf("afterwards: %+v", c)
	}
	// The same for a record that is no revision.
	before = contents(t, path)
	f.replace = func(path string, data []byte) error {
		f.replace = replace
		return errors.Join(failure, replace(path, data))
	}
	amended := entry(2)
	amended.Status = history.Confirmed
	if err := f.Commit(&Record{Amend: amended}); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if after := contents(t, path); !reflect.DeepEqual(before, after) {
		t.Errorf("%+v became\n%+v", before.Entries[1], after.Entries[1])
	}
}

// TestDoubtEndsWriting: when it can't be told whether a transaction was
// written, none is made any more.
func TestDoubtEndsWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	failure := errors.New("no sync")
	f.replace = func(path string, data []byte) error { return errors.Join(failure, replace(path, data)) }
	if f.Doubt() != nil {
		t.Fatal(f.Doubt())
	}
	if err := f.Commit(&Record{Entry: entry(1)}); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if !errors.Is(f.Doubt(), failure) {
		t.Errorf("%v", f.Doubt())
	}
	f.replace = replace
	if err := f.Commit(&Record{Entry: entry(1)}); !errors.Is(err, failure) || !strings.Contains(err.Error(), "restart rdmad") {
		t.Errorf("%v", err)
	}
}

// wantSegments fails the test unless the segments on the disk are those of the file.
func wantSegments(t *testing.T, f *File) {
	t.Helper()
	all := have(os.ReadDir(segments(f.path)))(t)
	var got, want []string
	for _, e := range all {
		got = append(got, e.Name())
	}
	for i := range f.now.Segments {
		want = append(want, f.now.Segments[i].name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("segments %q, want %q", got, want)
	}
}

// TestSharedSpareIsLeft: what a backup shares with the file by hard links stays as it
// is.
func TestSharedSpareIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	commit(t, f, &Record{Entry: entry(1)})
	backup := filepath.Join(t.TempDir(), "settings.db")
	must(t, os.Link(path, backup))
	for revision := uint32(2); revision < 5; revision++ {
		commit(t, f, &Record{Entry: entry(revision)})
	}
	if c := contents(t, backup); c.Revision != 1 {
		t.Errorf("the backup has revision %d", c.Revision)
	}
	if c := contents(t, path); c.Revision != 4 {
		t.Errorf("revision %d", c.Revision)
	}
}

// TestKilledWithin: whatever step of a write is the last, the file has what it had
// before or the revision as a whole, and takes revisions again.
func TestKilledWithin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	f.limit = 700
	copied := func() string {
		dir := t.TempDir()
		must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(path))))
		return filepath.Join(dir, filepath.Base(path))
	}
	var left []string
	f.replace = func(path string, data []byte) error {
		err := replace(path, data)
		left = append(left, copied())
		return err
	}
	segmented := 0
	for revision := uint32(1); revision <= 12; revision++ {
		r := &Record{Entry: entry(revision)}
		if revision > 6 {
			r.Drop = []uint32{revision - 6}
		}
		left = []string{copied()}
		commit(t, f, r)
		segmented = max(segmented, len(left))
		for i, path := range append(left, copied()) {
			want := revision
			if i < len(left)-1 {
				want--
			}
			again, c, err := Open(path)
			if err != nil || c.Revision != want {
				t.Fatalf("revision %d, step %d: %+v, %v", revision, i, c, err)
			}
			wantSegments(t, again)
			commit(t, again, &Record{Entry: entry(c.Revision + 1)})
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			if c := contents(t, path); c.Revision != want+1 {
				t.Errorf("revision %d, step %d: then %d", revision, i, c.Revision)
			}
		}
	}
	if segmented < 3 {
		t.Error("no segment was written")
	}
}
