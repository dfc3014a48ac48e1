package audit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(dir string) Config {
	return Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, cfg Config) *Log {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// made appends n changes, each begun and done.
func made(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		ctx, r, err := l.Begin(t.Context(), Entry{Actor: "ada", Role: "operator", Origin: "here", Action: "Set", Request: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		Note(ctx, "a=1", "a=2", uint32(i+1))
		r.Done(OK, "")
	}
}

// told is the log as one line an entry, the newest first.
func told(t *testing.T, l *Log) string {
	t.Helper()
	entries, more, err := l.List(t.Context(), Query{Limit: 10000})
	if err != nil || more {
		t.Fatalf("more %v, %v", more, err)
	}
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %s %s %s %s %s>%s %d\n", e.Sequence, e.Actor, e.Action, e.Request, e.Outcome, e.Before, e.After, e.Revision)
	}
	return b.String()
}

// verify wants the log whole, and as long as said.
func verify(t *testing.T, dir string, first, last uint64) Report {
	t.Helper()
	r, err := Verify(dir)
	if err != nil || r.First != first || r.Last != last {
		t.Fatalf("%+v, %v; want entries %d to %d", r, err, first, last)
	}
	return r
}

func TestEveryChangeIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	l := open(t, config(dir))
	made(t, l, 2)
	l.Refused(Entry{Actor: "bob", Action: "Close", Outcome: "PERMISSION_DENIED", Reason: "no"})
	_, running, err := l.Begin(t.Context(), Entry{Actor: "eve", Action: "Trace"})
	if err != nil {
		t.Fatal(err)
	}
	want := "6 eve Trace  STARTED > 0\n5 bob Close  PERMISSION_DENIED > 0\n4 ada Set 1 OK a=1>a=2 2\n2 ada Set 0 OK a=1>a=2 1\n"
	if got := told(t, l); got != want {
		t.Errorf("got\n%s want\n%s", got, want)
	}
	running.Done("RESOURCE_EXHAUSTED", "slow")
	if got, want := told(t, l), strings.Replace(want, "6 eve Trace  STARTED", "7 eve Trace  RESOURCE_EXHAUSTED", 1); got != want {
		t.Errorf("got\n%s want\n%s", got, want)
	}
	verify(t, dir, 1, 7)
	info, err := os.Stat(filepath.Join(dir, currentName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	l := open(t, config(t.TempDir()))
	long := strings.Repeat("ü", maxText)
	_, r, err := l.Begin(t.Context(), Entry{Request: long})
	if err != nil {
		t.Fatal(err)
	}
	r.Done("ABORTED", long)
	l.Refused(Entry{Request: long, Outcome: "PERMISSION_DENIED"})
	entries, _, err := l.List(t.Context(), Query{Limit: 2})
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	for _, x := range []struct {
		what, got string
		most      int
	}{{"request", entries[1].Request, maxText}, {"reason", entries[1].Reason, maxText}, {"refused request", entries[0].Request, maxRefused}} {
		if got := x.got; len(got) > x.most+200 || !strings.HasPrefix(long, got[:x.most]) || !strings.Contains(got, "(32768 bytes, SHA-256 ") {
			t.Errorf("%s: %d bytes, ending %q", x.what, len(got), got[max(len(got)-100, 0):])
		}
	}
}

// TestLargeChangesOfItsOwn: what rdmad changed by itself, such as all settings of a new configuration file, is cut
// as well. A longer line would count as damage at the next start.
func TestLargeChangesOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	l := open(t, config(dir))
	long := strings.Repeat("x", maxLine)
	l.Refused(Entry{Actor: "rdmad", Action: "reload", Before: long, After: long, Outcome: OK})
	l.Close()
	made(t, open(t, config(dir)), 1)
	verify(t, dir, 1, 3)
	if set, err := filepath.Glob(filepath.Join(dir, damagePrefix+"*")); set != nil || err != nil {
		t.Errorf("set aside: %q, %v", set, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir)
	cfg.MaxSize = 8 << 10
	cfg.Keep = 1000
	l := open(t, cfg)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { made(t, l, 20) })
	}
	all.Wait()
	last, _ := l.Newest()
	if r := verify(t, dir, 1, last); r.Files < 10 || last < 640 {
		t.Errorf("%+v", r)
	}
	if n := strings.Count(told(t, l), "\n"); n != 320 {
		t.Errorf("%d changes told", n)
	}
}

func TestPages(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.MaxSize, cfg.Keep = 2<<10, 100
	clock := time.Unix(1000, 0)
	cfg.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
	l := open(t, cfg)
	made(t, l, 30)
	l.Refused(Entry{Actor: "bob", Outcome: "ABORTED"})
	var got []uint64
	for q := (Query{Limit: 7, Actor: "ada"}); ; {
		entries, more, err := l.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			got = append(got, e.Sequence)
			q.Before = e.Sequence
		}
		if !more {
			break
		}
		made(t, l, 1) // newer entries don't get between pages
	}
	for i, s := range got {
		if len(got) != 30 || i > 0 && s >= got[i-1] {
			t.Fatalf("%v", got)
		}
	}
	since, _, err := l.List(t.Context(), Query{Limit: 100, Since: time.Unix(1000+58, 0)})
	if err != nil || since[len(since)-1].Time.Before(time.Unix(1058, 0)) || len(since) < 2 {
		t.Errorf("%v, %v", since, err)
	}
}

// A machine whose clock was wrong for a while has early entries among late ones.
func TestSinceAfterAJumpOfTheClock(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.MaxSize, cfg.Keep = 2<<10, 100
	clock := time.Unix(100, 0)
	cfg.Now = func() time.Time { return clock }
	l := open(t, cfg)
	made(t, l, 30)
	clock = time.Unix(1000, 0)
	made(t, l, 10)
	clock = time.Unix(0, 0)
	made(t, l, 1)
	clock = time.Unix(1001, 0)
	made(t, l, 1)
	entries, more, err := l.List(t.Context(), Query{Limit: 100, Since: time.Unix(1000, 0)})
	if err != nil || more || len(entries) != 11 {
		t.Errorf("%d entries, more %v, %v", len(entries), more, err)
	}
}

func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir)
	cfg.MaxSize, cfg.Keep = 1<<10, 3
	l := open(t, cfg)
	made(t, l, 60)
	r, err := Verify(dir)
	if err != nil || r.Files != 4 || r.Last != 120 || r.First < 90 {
		t.Errorf("%+v, %v", r, err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 4 {
		t.Errorf("files %v", names)
	}
}

// TestNameOfTheDirectory: characters that have a meaning in patterns have none in the directory's name.
func TestNameOfTheDirectory(t *testing.T) {
	for _, name := range []string{"[a", "[a]"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		cfg := config(dir)
		cfg.MaxSize, cfg.Keep = 2<<10, 2
		l := open(t, cfg)
		made(t, l, 30)
		if older, err := olderFiles(dir); err != nil || len(older) != 2 {
			t.Errorf("%s: finished files %q, %v", name, older, err)
		}
		if r, err := Verify(dir); err != nil || r.Files != 3 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestTampering: whatever is done to a written entry shows, and what was
// found when the log is opened is kept.
func TestTampering(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"a word": func(b []byte) []byte { return bytes.Replace(b, []byte(`"after":"a=2"`), []byte(`"after":"a=3"`), 1) },
		"a hash": func(b []byte) []byte { return bytes.Replace(b, []byte(`"hash":"`), []byte(`"hash":"0`), 1) },
		"a line gone": func(b []byte) []byte {
			l := bytes.SplitAfter(b, []byte("\n"))
			return bytes.Join(append(l[:2:2], l[3:]...), nil)
		},
		"lines swapped": func(b []byte) []byte {
			l := bytes.SplitAfter(b, []byte("\n"))
			l[2], l[3] = l[3], l[2]
			return bytes.Join(l, nil)
		},
		"a line twice": func(b []byte) []byte {
			l := bytes.SplitAfter(b, []byte("\n"))
			return bytes.Join(append(l[:2:2], l[1:]...), nil)
		},
		"one rewritten with its hash": func(b []byte) []byte {
			l := bytes.SplitAfter(b, []byte("\n"))
			e, _, err := parseLine(l[1])
			if err != nil {
				panic(err)
			}
			at := chain{e.Sequence - 1, e.Previous}
			e.Actor = "somebody else"
			l[1], _, _ = at.appendLine(nil, e)
			return bytes.Join(l, nil)
		},
	} {
		dir := t.TempDir()
		l := open(t, config(dir))
		made(t, l, 4)
		l.Close()
		text, err := os.ReadFile(l.path())
		if err != nil {
			t.Fatal(err)
		}
		changed := change(bytes.Clone(text))
		if bytes.Equal(changed, text) {
			t.Fatalf("%s: nothing changed", name)
		}
		if err := os.WriteFile(l.path(), changed, 0o600); err != nil {
			t.Fatal(err)
		}
		var damage *DamageError
		if _, err := Verify(dir); !errors.As(err, &damage) || damage.After > 4 {
			t.Errorf("%s: %v", name, err)
		}
		if got := told(t, open(t, config(dir))); !strings.Contains(got, "rdmad damage") {
			t.Errorf("%s: told\n%s", name, got)
		}
		kept, _ := filepath.Glob(filepath.Join(dir, damagePrefix+"*"))
		tail, err := os.ReadFile(kept[0])
		if err != nil || len(kept) != 1 || !bytes.HasSuffix(changed, tail) || len(tail) == 0 {
			t.Errorf("%s: kept %v, %v", name, kept, err)
		}
		if _, err := Verify(dir); err != nil {
			t.Errorf("%s: afterwards %v", name, err)
		}
	}
}

// TestDamagedLineIsListed: one that is changed while rdmad runs.
func TestDamagedLineIsListed(t *testing.T) {
	l := open(t, config(t.TempDir()))
	made(t, l, 3)
	text, err := os.ReadFile(l.path())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.path(), bytes.Replace(text, []byte("a=2"), []byte("a=9"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "6 ada Set 2 OK a=1>a=2 3\n4 ada Set 1 OK a=1>a=2 2\n2 rdmad damage  DATA_LOSS > 0\n"
	if got := told(t, l); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestJunkBetweenPages: lines that others write into the log, also copies, neither hide an entry nor repeat one,
// whatever the size of pages.
func TestJunkBetweenPages(t *testing.T) {
	for name, change := range map[string]func(lines [][]byte, i int) []byte{
		"no junk":         func(l [][]byte, i int) []byte { return l[i] },
		"after each line": func(l [][]byte, i int) []byte { return append(bytes.Clone(l[i]), "junk\n"...) },
		"several before":  func(l [][]byte, i int) []byte { return append([]byte("junk\n\nof many\nlines\n"), l[i]...) },
		"copies":          func(l [][]byte, i int) []byte { return slices.Concat(l[i], l[i]) },
		"older entries":   func(l [][]byte, i int) []byte { return slices.Concat(l[i], l[i/3], l[i/2], []byte("junk\n")) },
		"damage and an older entry": func(l [][]byte, i int) []byte {
			if i == 3 {
				return l[1]
			}
			return l[i]
		},
		"damage and junk": func(l [][]byte, i int) []byte {
			if i == 3 {
				return []byte("junk\nin place of\none\n")
			}
			return l[i]
		},
	} {
		dir := t.TempDir()
		cfg := config(dir)
		cfg.MaxSize, cfg.Keep = 2<<10, 100
		l := open(t, cfg)
		made(t, l, 10)
		older, err := olderFiles(dir)
		if err != nil || len(older) < 2 {
			t.Fatal(older, err)
		}
		for _, file := range append(older, l.path()) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
			lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
			var changed []byte
			for i := range lines {
				changed = append(changed, change(lines, i)...)
			}
			if err := os.WriteFile(file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		made(t, l, 2) // after what others wrote
		all := told(t, l)
		if n := strings.Count(all, " ada "); n != 12 && !strings.HasPrefix(name, "damage") || !strings.HasPrefix(all, "27 ada Set 1 ") {
			t.Errorf("%s: all\n%s", name, all)
		}
		for size := 1; size < 6; size++ {
			var paged []string
			for q := (Query{Limit: size}); len(paged) < 100; {
				entries, more, err := l.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					paged = append(paged, fmt.Sprintf("%d %s", e.Sequence, e.Actor))
					q.Before = e.Sequence
				}
				if !more {
					break
				}
			}
			var want []string
			for line := range strings.Lines(all) {
				want = append(want, strings.Join(strings.Fields(line)[:2], " "))
			}
			if !slices.Equal(paged, want) {
				t.Errorf("%s: pages of %d: %q, want %q", name, size, paged, want)
			}
		}
	}
}

func FuzzFile(f *testing.F) {
	var text []byte
	var at chain
	for i := range 3 {
		var err error
		if text, at, err = at.appendLine(text, &Entry{Actor: "ada", Outcome: Started, Request: fmt.Sprint(i)}); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(text)
	f.Add(text[:len(text)-5])
	f.Add(bytes.ReplaceAll(text, []byte("ada"), []byte("bob")))
	f.Add([]byte("\n\n{}\n"))
	f.Add(make([]byte, 700))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, currentName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, damage := Verify(dir)
		l, err := Open(config(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		made(t, l, 1)
		r, err := Verify(dir)
		if err != nil {
			t.Fatalf("after it was opened (%v before): %v", damage, err)
		}
		entries, _, err := l.List(t.Context(), Query{Limit: 1})
		if err != nil || len(entries) != 1 || entries[0].Sequence != r.Last {
			t.Fatalf("%v, %v, last is %d", entries, err, r.Last)
		}
	})
}

// TestVerifyWhileWritten: a log that is written to, its files finished and
// dropped, is never called damaged.
func TestVerifyWhileWritten(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir)
	cfg.MaxSize, cfg.Keep = 2<<10, 3
	l := open(t, cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		made(t, l, 300)
	}()
	for verified := 0; ; verified++ {
		if r, err := Verify(dir); err != nil {
			t.Fatalf("after %d: %+v, %v", verified, r, err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
