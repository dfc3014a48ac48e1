package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// whole is a directory with a file and segments, made once: each revision is
// synced.
var whole = sync.OnceValues(func() (files map[string][]byte, err error) {
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
	if err != nil {
		return nil, err
	}
	f.limit = 1200
	for revision := uint32(1); len(f.now.Segments) < 2 || len(f.now.tail) < 2; revision++ {
		if err := f.Commit(&Record{Entry: entry(revision)}); err != nil {
			return nil, err
		}
	}
	names, err := filepath.Glob(filepath.Join(segments(path), "*"))
	if len(names) < 2 {
		return nil, fmt.Errorf("segments %q", names)
	}
	files = map[string][]byte{}
	for _, name := range append(names, path) {
		data, readErr := os.ReadFile(name)
		relative, relErr := filepath.Rel(dir, name)
		files[relative], err = data, errors.Join(err, readErr, relErr)
	}
	return files, errors.Join(err, f.Close())
})

// filled is a copy of it; files are its contents by name.
func filled(t testing.TB) (path string, files map[string][]byte) {
	t.Helper()
	shared := have(whole())(t)
	dir := t.TempDir()
	for name, data := range shared {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		write(t, filepath.Join(dir, name), data)
	}
	return filepath.Join(dir, "settings.db"), maps.Clone(shared)
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(path, data, 0o600))
}

// isRefusal makes sure that an error is one line that names the file and says
// what to do.
func isRefusal(t *testing.T, path string, err error) {
	t.Helper()
	var e *RefusedError
	if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), path+": ") || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "put back a copy, or move it and ") {
		t.Fatalf("%T: %v", err, err)
	}
}

// refused opens a file that holds data, and makes sure that it stays so.
func refused(t *testing.T, path string, data []byte) error {
	t.Helper()
	write(t, path, data)
	f, _, err := Open(path)
	if err == nil {
		f.Close()
		return nil
	}
	isRefusal(t, path, err)
	after, readErr := os.ReadFile(path)
	if readErr != nil || !bytes.Equal(after, data) {
		t.Errorf("a refused file was changed (%v)", readErr)
	}
	return err
}

// TestDamageIsRefused: what never was such a file is refused in a line and left
// alone.
func TestDamageIsRefused(t *testing.T) {
	path, files := filled(t)
	data := files["settings.db"]
	for name, c := range map[string][]byte{
		"empty":       {},
		"text":        []byte("settings: {}\n"),
		"zeros":       make([]byte, len(data)),
		"first line":  data[:bytes.IndexByte(data, '\n')+1],
		"a quarter":   data[:len(data)/4],
		"second half": data[len(data)/2:],
		"more":        append(bytes.Clone(data), "{}\n"...),
	} {
		if refused(t, path, c) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestEveryByte changes each byte of a file and of its segments, and ends them at each
// length. All of that is refused.
func TestEveryByte(t *testing.T) {
	path, files := filled(t)
	s := have(parse(files["settings.db"]))(t)
	taken := map[string]func([]byte) bool{"settings.db": func(data []byte) bool {
		_, err := parse(data)
		if err != nil && !errors.Is(err, errDamaged) {
			t.Errorf("not damage: %v", err)
		}
		return err == nil
	}}
	for _, g := range s.Segments {
		taken[filepath.Join("settings.history", g.name())] = func(data []byte) bool {
			_, ok := g.lines(data)
			return ok
		}
	}
	if len(taken) != len(files) {
		t.Fatalf("%d files, %d of them named", len(files), len(taken))
	}
	for name, data := range files {
		if !taken[name](data) {
			t.Fatalf("%s is refused as it is", name)
		}
		for at := range data {
			if taken[name](data[:at]) {
				t.Errorf("%s: taken with %d of %d bytes", name, at, len(data))
			}
			spoilt := bytes.Clone(data)
			for other := range 256 {
				spoilt[at] = byte(other)
				if byte(other) != data[at] && taken[name](spoilt) {
					t.Errorf("%s: taken with byte %d at %d", name, other, at)
				}
			}
		}
	}
	// The same of the files as they are opened, but not so often.
	for name, data := range files {
		file := filepath.Join(filepath.Dir(path), name)
		for at := len(sealPrefix); at < len(data); at += len(data) / 10 {
			spoilt := bytes.Clone(data)
			spoilt[at] ^= 1
			for _, spoilt := range [][]byte{spoilt, data[:at]} {
				write(t, file, spoilt)
				_, _, err := Open(path)
				isRefusal(t, path, err)
			}
		}
		write(t, file, data)
	}
}

// TestMissingSegment and one from another time are seen.
func TestMissingSegment(t *testing.T) {
	path, files := filled(t)
	for name, data := range files {
		if name == "settings.db" {
			continue
		}
		file := filepath.Join(filepath.Dir(path), name)
		write(t, file, seal([]byte("{}")))
		_, err := Read(path)
		isRefusal(t, path, err)
		must(t, os.Remove(file))
		_, err = Read(path)
		isRefusal(t, path, err)
		write(t, file, data)
		contents(t, path)
	}
}

// TestForeignContentsAreRefused: a right checksum is not enough.
func TestForeignContentsAreRefused(t *testing.T) {
	line := func(s *snapshot, i int, f func(*history.Entry)) {
		e := new(history.Entry)
		must(t, json.Unmarshal(s.tail[i], e))
		f(e)
		s.tail = slices.Clone(s.tail)
		s.tail[i], _ = json.Marshal(e)
	}
	text := func(old, now string) func([]byte) []byte {
		return func(data []byte) []byte {
			if !bytes.Contains(data, []byte(old)) {
				t.Fatalf("no %s in the file", old)
			}
			body := bytes.Replace(data[bytes.IndexByte(data, '\n')+1:], []byte(old), []byte(now), 1)
			return append(sealLine(format, body), body...)
		}
	}
	of := func(f func(*snapshot)) func([]byte) []byte {
		return func(data []byte) []byte {
			s := have(parse(data))(t)
			f(s)
			out := have(s.text())(t)
			return out
		}
	}
	for _, c := range []struct {
		name, want string
		spoil      func([]byte) []byte
	}{
		{"newer", "is from a newer rdmad (format 3, this one knows 2)", func(data []byte) []byte {
			body := data[bytes.IndexByte(data, '\n')+1:]
			return append(sealLine(format+1, body), body...)
		}},
		{"no text", "no lines of format 2", func([]byte) []byte { return sealLine(format, nil) }},
		{"a revision less", "revisions for those from 1", of(func(s *snapshot) { s.tail = s.tail[1:] })},
		{"a revision twice", "in the place of", of(func(s *snapshot) { s.tail = append(slices.Clone(s.tail), s.tail...) })},
		{"more than is kept", "revisions for those from", of(func(s *snapshot) { s.Oldest, s.Revision = 1, history.MaxEntries+1 })},
		{"a segment less", "revisions for those from", of(func(s *snapshot) { s.Segments = nil })},
		{"the oldest is to come", "revisions for those from", of(func(s *snapshot) { s.Oldest = s.Revision + 2 })},
		{"a connection", "scope connection/7", text(`"listener/nfs":`, `"connection/7":`)},
		{"an unknown setting", "is from another rdmad, perhaps a newer one (inline.recv_max: there is no such setting", text(`"ddp.min_chunk"`, `"inline.recv_max"`)},
		{"a setting with a line break", "dp.m?n_chunk: there is no such setting", text(`"ddp.min_chunk"`, `"dp.m\nn_chunk"`)},
		{"an unknown field", `is from another rdmad, perhaps a newer one (json: unknown field "more"); nothing was changed in it`, text(`"oldest":`, `"more":1,"oldest":`)},
		{"an unknown kind", `is from another rdmad, perhaps a newer one (kind "guess")`, text(`"kind":"set"`, `"kind":"guess"`)},
		{"an unknown status", `status "good"`, text(`"status":"applied"`, `"status":"good"`)},
		{"two values", "more than one value", text(`"segments":`, `"seen":{}}{"segments":`)},
		{"one waits too long", "waits to be confirmed after revision", of(func(s *snapshot) {
			line(s, 0, func(e *history.Entry) { e.Status, e.Deadline = history.Pending, e.Time.Add(1) })
		})},
		{"one that never waited", "a confirm window that ends before it begins", of(func(s *snapshot) {
			line(s, len(s.tail)-1, func(e *history.Entry) { e.Status = history.Pending })
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, files := filled(t)
			if err := refused(t, path, c.spoil(files["settings.db"])); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestScopesMayBeNull: a file whose scopes are no object takes revisions all the same.
func TestScopesMayBeNull(t *testing.T) {
	s := &snapshot{}
	s.step(entry(1))
	if len(s.Scopes) != 1 {
		t.Error(s.Scopes)
	}
}

// FuzzOpen opens whatever has the file's name, with a wrong and with a right
// checksum, and stores a revision in it if it was taken.
func FuzzOpen(f *testing.F) {
	path, files := filled(f)
	for _, data := range files {
		f.Add(data, uint16(0), byte(0))
		f.Add(data[bytes.IndexByte(data, '\n')+1:], uint16(40), byte('9'))
	}
	s, err := parse(files["settings.db"])
	if err != nil {
		f.Fatal(err)
	}
	small := snapshot{state: state{Revision: 1, Oldest: 1, Scopes: s.Scopes, Segments: s.Segments}, tail: s.tail[:1]}
	text, err := small.text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, text []byte, at uint16, value byte) {
		spoilt := bytes.Clone(files["settings.db"])
		spoilt[len(sealPrefix)+int(at)%(len(spoilt)-len(sealPrefix))] = value
		for _, data := range [][]byte{
			spoilt,
			append(slices.Clip([]byte(sealPrefix)), text...),
			append(sealLine(format, text), text...),
		} {
			write(t, path, data)
			file, c, err := Open(path)
			if err != nil {
				isRefusal(t, path, err)
				continue
			}
			next := entry(c.Revision + 1)
			if c.Revision == 1<<32-1 {
				next = nil
			}
			if err := file.Commit(&Record{Entry: next}); err != nil {
				t.Errorf("what was taken takes no revision: %v", err)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzEntry: an entry that is read is written the same.
func FuzzEntry(f *testing.F) {
	pending := entry(3)
	pending.Status, pending.Deadline = history.Pending, pending.Time.Add(1)
	reload := entry(4)
	reload.Unset = reload.Unset.With(live.CreditsMax)
	reload.Step.File = &settings.FileDelta{After: fileLayer("rdmad.yaml", live.CreditsMax, 32)}
	for _, e := range []*history.Entry{entry(1), entry(2), pending, reload} {
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, back := new(history.Entry), new(history.Entry)
		if decode(text, e) != nil {
			return
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if err := decode(text, back); err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if again, err := json.Marshal(back); err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s became %s (%v)", text, again, err)
		}
	})
}
