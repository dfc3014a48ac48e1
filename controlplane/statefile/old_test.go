package statefile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// oldFileOf is a copy of a file that rdmad wrote when its format was 1.
func oldFileOf(t *testing.T) (path string, data []byte) {
	t.Helper()
	data, err := os.ReadFile("testdata/settings.db")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "settings.db")
	write(t, path, data)
	return path, data
}

// oldContents are what the file was made of.
func oldContents() *Contents {
	c := &Contents{
		Revision: 14, File: fileLayer("other.yaml", live.RemoteInvalidationUse, 1),
		Layers: map[settings.Scope]settings.Layer{{}: layer(14, live.CreditsMin, 2)},
	}
	c.Seen.Values = c.File.Values
	for revision := uint32(3); revision <= 14; revision++ {
		c.Entries = append(c.Entries, entry(revision))
	}
	c.Layers[settings.Scope{Kind: settings.Listener, Name: "nfs"}] = layer(11, live.DDPMinChunk, 11)
	reload, peer, last := c.Entries[9], c.Entries[10], c.Entries[11]
	reload.Kind, reload.Scope, reload.Set, reload.Unset = history.Reload, settings.Scope{}, settings.Values{}, settings.KeySet(0).With(live.CreditsMax)
	reload.Step = settings.Step{File: &settings.FileDelta{Before: fileLayer("rdmad.yaml", live.CreditsMax, 32), After: c.File}}
	peer.Scope, _ = settings.ParseScope("peer/10.0.0.0/8")
	c.Layers[peer.Scope] = layer(13, live.InlineSendMax, 2048)
	peer.Step.Deltas[0] = settings.Delta{Scope: peer.Scope, After: c.Layers[peer.Scope]}
	peer.Set = c.Layers[peer.Scope].Values
	last.Scope = settings.Scope{}
	last.Step.Deltas[0] = settings.Delta{After: c.Layers[last.Scope]}
	last.Set = c.Layers[last.Scope].Values
	last.Status, last.Deadline = history.Confirmed, last.Time.Add(time.Minute)
	return c
}

// TestOldFile: what an earlier rdmad stored is taken over when the file is opened, once;
// its file is kept. Reading alone changes nothing.
func TestOldFile(t *testing.T) {
	path, data := oldFileOf(t)
	if c, want := contents(t, path), oldContents(); !reflect.DeepEqual(c, want) {
		t.Errorf("read\n%+v, want\n%+v", c, want)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
		t.Fatalf("reading changed it (%v)", err)
	}
	f, c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := oldContents()
	want.Kept = beside(path, ".bbolt")
	if !reflect.DeepEqual(c, want) {
		t.Errorf("opened\n%+v, want\n%+v", c, want)
	}
	if kept, err := os.ReadFile(want.Kept); err != nil || !bytes.Equal(kept, data) {
		t.Errorf("the old file was not kept (%v)", err)
	}
	if c, want := contents(t, path), oldContents(); !reflect.DeepEqual(c, want) {
		t.Errorf("written\n%+v, want\n%+v", c, want)
	}
	commit(t, f, &Record{Entry: entry(15)})
	must(t, f.Close())
	f, c, err = Open(path)
	if err != nil || c.Kept != "" || c.Revision != 15 || len(c.Entries) != 13 {
		t.Fatalf("opened again: %+v, %v", c, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestOldFileComesBack: after a downgrade, another old file takes the place of the one that was
// kept before. Nothing else stays of that.
func TestOldFileComesBack(t *testing.T) {
	path, data := oldFileOf(t)
	kept := beside(path, ".bbolt")
	must(t, os.WriteFile(kept, []byte("of the first upgrade"), 0o600))
	f, _, err := Open(path)
	must(t, err)
	must(t, f.Close())
	if now, err := os.ReadFile(kept); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the old file was not kept (%v)", err)
	}
	if _, err := os.Stat(spareOf(kept)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", spareOf(kept), err)
	}
}

// TestOldFileStays when there is no room for the new one.
func TestOldFileStays(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	path, data := oldFileOf(t)
	for _, room := range []uint64{0, uint64(len(data)) - 1} {
		restore := limitFiles(t, room)
		_, _, err := Open(path)
		restore()
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
			t.Errorf("with room for %d bytes it was changed (%v)", room, err)
		}
	}
}

// TestOldDamage: a damaged file of an earlier rdmad is refused or read right,
// whatever bbolt makes of it.
func TestOldDamage(t *testing.T) {
	path, data := oldFileOf(t)
	want := oldContents()
	seen := map[string]bool{}
	try := func(spoilt []byte) {
		t.Helper()
		write(t, path, spoilt)
		c, err := Read(path)
		if err != nil {
			isRefusal(t, path, err)
			return
		}
		seen["read"] = true
		if c.Revision == want.Revision-1 || c.Entries[len(c.Entries)-1].Status == history.Pending {
			seen["one before"] = true // the newest of bbolt's two meta pages was damaged
		} else if !reflect.DeepEqual(c, want) {
			t.Errorf("read\n%+v", c)
		}
	}
	try(data[:len(data)/2])
	try(data[:9*4096])
	// The first seven were seen to do what is said to a process that opens the file with
	// bbolt, checks it and recovers from panics and faults.
	for _, c := range []struct {
		at    int
		value byte
	}{
		{8206, 255},           // run without an end
		{8218, 1}, {24598, 6}, // fault
		{12298, 252},            // fault
		{12331, 1},              // fault
		{12319, 3},              // fault
		{12320, 0},              // panic
		{16, 0}, {4096 + 48, 9}, // fall back to the other meta page
		{8*4096 + 10, 255}, // change the count of free pages
		{12 * 4096, 1},     // nothing: the page is free
	} {
		spoilt := bytes.Clone(data)
		spoilt[c.at] = c.value
		try(spoilt)
	}
	if !seen["read"] {
		t.Error("nothing was read")
	}
}

// TestOldContentsAreChecked behind bbolt's own checks.
func TestOldContentsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*bbolt.Tx) error
	}{
		{"no format", `no "format" in meta`, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("format")) }},
		{"a revision less", "11 revisions, not 1", func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("history")).Delete([]byte{0, 0, 0, 7})
		}},
		{"a bucket less", "0 scopes", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("scopes")) }},
		{"a bucket more", `guess "k": wrong checksum`, func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte("guess"))
			return errors.Join(err, b.Put([]byte("k"), []byte("value")))
		}},
		{"another key", "wrong checksum", func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("scopes"))
			v := bytes.Clone(b.Get([]byte("listener/nfs")))
			return errors.Join(b.Delete([]byte("listener/nfs")), b.Put([]byte("listener/nfx"), v))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, _ := oldFileOf(t)
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			must(t, errors.Join(db.Update(c.spoil), db.Close()))
			_, err = Read(path)
			isRefusal(t, path, err)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestOldFileInUse: while an earlier rdmad runs its file is not damaged, but busy.
func TestOldFileInUse(t *testing.T) {
	path, _ := oldFileOf(t)
	db := have(bbolt.Open(path, 0o600, nil))(t)
	defer db.Close()
	if _, err := Read(path); err == nil || err.Error() != path+": is in use by an earlier rdmad" {
		t.Error(err)
	}
}
