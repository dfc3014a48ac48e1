package statefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
)

// whole is the text of a file with several pages in a bucket, made once: each
// revision is synced.
var whole = sync.OnceValues(func() (data []byte, err error) {
	dir, err := os.MkdirTemp("", "statefile")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "settings.db")
	if err := Create(path, fileLayer("rdmad.yaml")); err != nil {
		return nil, err
	}
	f, _, err := Open(path)
	for revision := uint32(1); revision <= 40 && err == nil; revision++ {
		err = f.Commit(&Record{Entry: entry(revision)})
	}
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// filled is a copy of it.
func filled(t testing.TB) (path string, data []byte) {
	t.Helper()
	shared, err := whole()
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Clone(shared)
	path = filepath.Join(t.TempDir(), "settings.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, data
}

// refused opens a file that holds data, and makes sure that it stays so.
func refused(t *testing.T, path string, data []byte) error {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, _, err := Open(path)
	if err == nil {
		f.Close()
		return nil
	}
	var e *RefusedError
	if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), path+": ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%T: %v", err, err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(after, data) {
		t.Errorf("a refused file was changed (%v)", err)
	}
	return e
}

// TestDamageIsRefused: whatever is wrong with a file, it is refused in a line
// and left alone, or what is read is what was stored.
func TestDamageIsRefused(t *testing.T) {
	path, data := filled(t)
	for name, c := range map[string][]byte{
		"empty":       {},
		"text":        []byte("settings: {}\n"),
		"zeros":       make([]byte, len(data)),
		"a page":      data[:4096],
		"a quarter":   data[:len(data)/4],
		"second half": data[len(data)/2:],
	} {
		if refused(t, path, c) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	r := rand.New(rand.NewPCG(4, 20))
	taken := 0
	for range 600 {
		spoilt := bytes.Clone(data)
		switch r.IntN(3) {
		case 0:
			spoilt[r.IntN(len(spoilt))] ^= 1 << r.IntN(8)
		case 1: // a sector that was not written
			at := r.IntN(len(spoilt)/512) * 512
			clear(spoilt[at : at+512])
		case 2: // page numbers, lengths and counts are small
			at := r.IntN(len(spoilt)/8) * 8
			spoilt[at] = byte(r.IntN(24))
		}
		c, err := parse(spoilt)
		switch {
		case err != nil && !errors.Is(err, errDamaged):
			t.Fatalf("not damage: %v", err)
		case err == nil && c.Revision != 40 && c.Revision != 39:
			t.Fatalf("revision %d was read", c.Revision)
		case err == nil:
			taken++
		}
	}
	if taken == 0 || taken == 600 {
		t.Errorf("%d of 600 were taken", taken)
	}
}

// TestTreeWithoutAnEnd: pages that lead back to themselves are found out at
// the first turn.
func TestTreeWithoutAnEnd(t *testing.T) {
	_, data := filled(t)
	le := binary.LittleEndian
	turned := 0
	for at := 0; at+4096 <= len(data); at += 4096 {
		p := data[at:]
		if le.Uint16(p[8:]) != flagBranch || le.Uint64(p) != uint64(at/4096) {
			continue
		}
		for i := range int(le.Uint16(p[10:])) {
			le.PutUint64(p[pageHeader+i*elemSize+8:], uint64(at/4096))
		}
		turned++
	}
	if _, err := parse(data); turned == 0 || !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "is used twice") {
		t.Errorf("%d pages turned: %v", turned, err)
	}
}

// rewrite changes a value of a closed file by means of bbolt alone.
func rewrite(t *testing.T, path string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestForeignContentsAreRefused(t *testing.T) {
	put := func(bucket, key string, v any) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			value, err := seal(bucket, []byte(key), v)
			if err != nil {
				return err
			}
			return tx.Bucket([]byte(bucket)).Put([]byte(key), value)
		}
	}
	drop := func(bucket string, key []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Delete(key) }
	}
	for _, c := range []struct {
		name, want string
		spoil      func(*bbolt.Tx) error
	}{
		{"newer", "is from a newer rdmad (format 2, this one knows 1)", put(bucketMeta, keyFormat, 2)},
		{"no format", "no format in meta", drop(bucketMeta, []byte(keyFormat))},
		{"a revision less", "1 scopes and 39 revisions, not 1 and 40", drop(bucketHistory, historyKey(7))},
		{"a scope less", "0 scopes and 40 revisions, not 1 and 40", drop(bucketScopes, []byte("listener/nfs"))},
		{"a bucket less", "0 scopes", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketScopes)) }},
		{"an unknown setting", "inline.recv_max: there is no such setting",
			put(bucketScopes, "listener/nfs", layerText{Values: map[string]string{"inline.recv_max": "1"}})},
		{"an unknown field", `json: unknown field "more"`, put(bucketScopes, "listener/nfs", map[string]any{"more": 1})},
		{"an unknown kind", `kind "guess"`, put(bucketHistory, string(historyKey(9)), entryText{Kind: "guess"})},
		{"another key", "wrong checksum", func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucketScopes))
			v := bytes.Clone(b.Get([]byte("listener/nfs")))
			return errors.Join(b.Delete([]byte("listener/nfs")), b.Put([]byte("listener/nfx"), v))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, _ := filled(t)
			rewrite(t, path, c.spoil)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := refused(t, path, data); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "put back a copy, or move it away") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	path := filepath.Join(f.TempDir(), "settings.db")
	file := create(f, path)
	commit(f, file, &Record{Entry: entry(1)})
	if err := file.Close(); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	// The mutator changes a few pages better than many.
	f.Add(uint16(0), byte(0), data[:min(len(data), 16<<10)])
	f.Add(uint16(20000), byte(9), []byte{})
	f.Fuzz(func(t *testing.T, at uint16, value byte, text []byte) {
		spoilt := bytes.Clone(data)
		spoilt[int(at)%len(spoilt)] = value
		for _, b := range [][]byte{spoilt, text} {
			if _, err := parse(b); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		}
	})
}

// FuzzValues takes what a value of the file may hold behind a right checksum.
func FuzzValues(f *testing.F) {
	for _, v := range []any{textOfEntry(entry(2)), textOfLayer(&entry(1).Step.Deltas[0].After), stateText{Revision: 1}} {
		value, err := seal("b", []byte("k"), v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value[4:])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		seal := func(v any) error {
			sealed := append(binary.BigEndian.AppendUint32(nil, sum("b", []byte("k"), text)), text...)
			return unseal("b", []byte("k"), sealed, v)
		}
		var e entryText
		if seal(&e) == nil {
			if back, err := e.entry(1); err == nil {
				if _, err := textOfEntry(back).entry(1); err != nil {
					t.Errorf("what was read can't be written: %v", err)
				}
			}
		}
		var l layerText
		if seal(&l) == nil {
			if _, err := l.layer(); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		}
	})
}
