package statefile

import (
	"errors"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/controlplane/history"
)

// limitFiles lets no file of this process grow beyond so many bytes until
// the function that it returns is called.
func limitFiles(t *testing.T, bytes uint64) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: bytes, Max: old.Max})
	return func() { set(old) }
}

// ignoreFileSize has a write beyond the limit fail like one on a full disk,
// instead of ending the process.
func ignoreFileSize(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(unix.SIGXFSZ) })
}

// TestDiskFull: a write that finds no room is refused, leaves what was
// stored, and the next one is made once there is room.
func TestDiskFull(t *testing.T) {
	ignoreFileSize(t)
	path := filepath.Join(t.TempDir(), "settings.db")
	f := create(t, path)
	commit(t, f, &Record{Entry: entry(1)})
	before := contents(t, path)
	for _, room := range []uint64{0, 4096, 8192, 12288} {
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
	f.commit = func(tx *bbolt.Tx) error {
		f.commit = (*bbolt.Tx).Commit
		return errors.Join(failure, tx.Commit())
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
	f.commit = func(tx *bbolt.Tx) error {
		f.commit = (*bbolt.Tx).Commit
		return errors.Join(failure, tx.Commit())
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
	f.commit = func(tx *bbolt.Tx) error { return errors.Join(failure, tx.Commit()) }
	if err := f.Commit(&Record{Entry: entry(1)}); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	f.commit = (*bbolt.Tx).Commit
	if err := f.Commit(&Record{Entry: entry(1)}); !errors.Is(err, failure) || !strings.Contains(err.Error(), "restart rdmad") {
		t.Errorf("%v", err)
	}
}
