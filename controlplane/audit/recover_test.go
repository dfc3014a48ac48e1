package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// finished closes a log and gives the text of its current file.
func finished(t *testing.T, l *Log) []byte {
	t.Helper()
	l.Close()
	text, err := os.ReadFile(l.path())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReopen: a crash at any moment loses nothing that was answered. A request that had begun
// is reported, even if it began many files before.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir)
	cfg.MaxSize, cfg.Keep = 1<<10, 2
	l := open(t, cfg)
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "eve", Action: "Capture", Request: "all"}); err != nil {
		t.Fatal(err)
	}
	made(t, l, 20)
	last, _ := l.Newest()
	// No Close: the process died.
	again := open(t, cfg)
	if got := told(t, again); !strings.HasPrefix(got, fmt.Sprintf("%d eve Capture all UNKNOWN > 0\n", last+1)) || strings.Count(got, "eve") != 1 {
		t.Errorf("got\n%s", got)
	}
	third := open(t, cfg)
	if n, _ := third.Newest(); n != last+1 {
		t.Errorf("opened once more: %d entries after %d", n, last+1)
	}
	if _, err := Verify(dir); err != nil {
		t.Error(err)
	}
}

// TestCrashWhileRotating: between the two names, there is no current file.
func TestCrashWhileRotating(t *testing.T) {
	dir := t.TempDir()
	l := open(t, config(dir))
	made(t, l, 3)
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "eve"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(l.path(), filepath.Join(dir, olderName(1))); err != nil {
		t.Fatal(err)
	}
	again := open(t, config(dir))
	made(t, again, 1)
	verify(t, dir, 1, 10)
}

func TestTornEntryIsCutOff(t *testing.T) {
	for cut := range 400 {
		dir := t.TempDir()
		l := open(t, config(dir))
		made(t, l, 1)
		text := finished(t, l)
		end := bytes.IndexByte(text, '\n') + 1
		if end+cut >= len(text) {
			break
		}
		if err := os.WriteFile(l.path(), text[:end+cut], 0o600); err != nil {
			t.Fatal(err)
		}
		got := told(t, open(t, config(dir)))
		want := "2 ada Set 0 UNKNOWN > 0\n"
		if cut > 0 {
			want = "3 ada Set 0 UNKNOWN > 0\n2 rdmad repair  OK > 0\n"
		}
		if got != want {
			t.Fatalf("cut at %d:\n%s", cut, got)
		}
		if _, err := Verify(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedFinishedFile: after damage in the last finished file, while the next one is empty, no number comes again, and
// only requests whose end is damaged have an unknown one.
func TestDamagedFinishedFile(t *testing.T) {
	for damaged := range 4 {
		dir := t.TempDir()
		l := open(t, config(dir))
		made(t, l, 2)
		text := finished(t, l)
		lines := bytes.SplitAfter(text, []byte("\n"))
		lines[damaged][0] = 'x'
		older := filepath.Join(dir, olderName(1))
		if err := errors.Join(os.WriteFile(older, bytes.Join(lines, nil), 0o600), os.Remove(l.path())); err != nil {
			t.Fatal(err)
		}
		unknown := damaged % 2 // every second line is an end
		l = open(t, config(dir))
		made(t, l, 1)
		if last, _ := l.Newest(); last != uint64(6+unknown) {
			t.Errorf("line %d is damaged: the newest entry is %d", damaged, last)
		}
		if all := told(t, l); strings.Count(all, Unknown) != unknown || strings.Count(all, "rdmad damage") != 1 {
			t.Errorf("line %d is damaged: told\n%s", damaged, all)
		}
	}
}

// TestDamagedEnd: no number comes again, either, if the end of the last finished file is damaged, with the ends of lines, or
// gone.
func TestDamagedEnd(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(text []byte) []byte
		last   uint64 // that cannot be free
	}{
		"torn":     {func(text []byte) []byte { return text[:len(text)-10] }, 4},
		"line end": {func(text []byte) []byte { return append(text[:len(text)-1], 'x') }, 4},
		"zeros": {func(text []byte) []byte {
			from := bytes.IndexByte(text, '\n') + 10
			clear(text[from:])
			return text
		}, 4},
		"all zeros": {func(text []byte) []byte {
			clear(text)
			return text
		}, 4},
		"a copy": {func(text []byte) []byte {
			lines := bytes.SplitAfter(text, []byte("\n"))
			lines[3][0] = 'x'
			return append(bytes.Join(lines, nil), lines[0]...)
		}, 4},
		"empty": {func([]byte) []byte { return nil }, 1},
	} {
		dir := t.TempDir()
		l := open(t, config(dir))
		made(t, l, 2)
		text := finished(t, l)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, olderName(1)), c.damage(text), 0o600), os.Remove(l.path())); err != nil {
			t.Fatal(err)
		}
		l = open(t, config(dir))
		made(t, l, 1)
		text, err := os.ReadFile(l.path())
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		e, _, err := parseLine(append(line, '\n'))
		if err != nil || e.Sequence <= c.last || e.Sequence > 8 {
			t.Errorf("%s: the next entry is %+v, %v", name, e, err)
		}
	}
}
