package audit

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// faulty is a file whose writes, syncs and truncations can fail.
type faulty struct {
	*os.File
	write, sync, truncate error
}

func (f *faulty) Write(b []byte) (int, error) {
	if f.write != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, f.write
	}
	return f.File.Write(b)
}

func (f *faulty) Sync() error {
	if err := f.sync; err != nil {
		f.sync = nil
		return err
	}
	return f.File.Sync()
}

func (f *faulty) Truncate(n int64) error {
	if f.truncate != nil {
		return f.truncate
	}
	return f.File.Truncate(n)
}

// openOn opens the log of a directory, with its current file on a disk.
func openOn(dir string, disk *faulty) (*Log, error) {
	return openWith(config(dir), func(name string) (f file, err error) {
		disk.File, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		return disk, err
	})
}

func TestDiskThatFails(t *testing.T) {
	full := errors.New("no space left on device")
	dir := t.TempDir()
	disk := &faulty{}
	l, err := openOn(dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, running, err := l.Begin(t.Context(), Entry{Actor: "ada", Action: "Set"})
	if err != nil {
		t.Fatal(err)
	}
	disk.write = full
	running.Done(OK, "") // was made; told when there is room again
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "bob"}); !errors.Is(err, full) {
		t.Errorf("a change begins: %v", err)
	}
	disk.write, disk.sync = nil, full
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "bob"}); !errors.Is(err, full) {
		t.Errorf("a change begins: %v", err)
	}
	made(t, l, 1)
	if got, want := told(t, l), "4 ada Set 0 OK a=1>a=2 1\n2 ada Set  OK > 0\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	verify(t, dir, 1, 4)
	disk.write, disk.truncate = full, errors.New("read-only")
	if err := l.Append(&Entry{}); err == nil || !strings.Contains(err.Error(), "can't be undone") {
		t.Errorf("%v", err)
	}
	disk.write = nil
	if err := l.Append(&Entry{}); err == nil {
		t.Error("written behind half an entry")
	}
	made(t, open(t, config(dir)), 1) // opened again, it is good
}

// TestRetry: a log that could not be written says so as long as that is so, without further requests.
func TestRetry(t *testing.T) {
	full := errors.New("no space left on device")
	dir := t.TempDir()
	disk := &faulty{write: full}
	l, err := openOn(dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Retry()
	if got := told(t, l); got != "" {
		t.Errorf("without a problem:\n%s", got)
	}
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "bob"}); !errors.Is(err, full) {
		t.Errorf("a change begins: %v", err)
	}
	l.Retry()
	if err := l.Problem(); !errors.Is(err, full) {
		t.Errorf("problem %v", err)
	}
	disk.write = nil
	l.Retry()
	if err := l.Problem(); err != nil {
		t.Error(err)
	}
	if got, want := told(t, l), "1 rdmad repair  OK > 0\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	verify(t, dir, 1, 1)
}

// TestRetryWhileARequestEnds: an end that can't be written is in the log once anything else is, also if that
// comes at the same moment.
func TestRetryWhileARequestEnds(t *testing.T) {
	full := errors.New("no space left on device")
	disk := &faulty{}
	l, err := openOn(t.TempDir(), disk)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 40 {
		_, running, err := l.Begin(t.Context(), Entry{Actor: "ada", Action: "Set"})
		if err != nil {
			t.Fatal(err)
		}
		disk.sync = full // once
		done, retried := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(retried)
			for {
				l.Retry()
				select {
				case <-done:
					l.Retry()
					return
				default:
				}
			}
		}()
		running.Done(OK, "")
		close(done)
		<-retried
		if got := told(t, l); strings.Contains(got, Started) {
			t.Fatalf("got\n%s", got)
		}
	}
}

// TestNothingOwedIsNoNews: a request whose last entry another request has written already does not hide that a
// later entry could not be written.
func TestNothingOwedIsNoNews(t *testing.T) {
	full := errors.New("no space left on device")
	disk := &faulty{}
	l, err := openOn(t.TempDir(), disk)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	disk.write = full
	l.Refused(Entry{Actor: "eve", Action: "Set", Outcome: "PERMISSION_DENIED"})
	if err := l.append(); err != nil { // as Done, without what it owed
		t.Error(err)
	}
	if err := l.Problem(); !errors.Is(err, full) {
		t.Errorf("the problem is %v", err)
	}
	disk.write = nil
}

// TestCloseWritesWhatIsOwed: the end of a request that could not be written is in the log if there is room at last.
func TestCloseWritesWhatIsOwed(t *testing.T) {
	dir := t.TempDir()
	disk := &faulty{}
	l, err := openOn(dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	_, running, err := l.Begin(t.Context(), Entry{Actor: "ada", Action: "Set"})
	if err != nil {
		t.Fatal(err)
	}
	disk.write = errors.New("no space left on device")
	running.Done("ABORTED", "")
	disk.write = nil
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got, want := told(t, open(t, config(dir))), "2 ada Set  ABORTED > 0\n"; got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestFullDiskWhileRotating: a file that was begun on a full disk has the requests that are not done as soon as there is
// room, because the older files are dropped at some time.
func TestFullDiskWhileRotating(t *testing.T) {
	full := errors.New("no space left on device")
	dir := t.TempDir()
	cfg := config(dir)
	cfg.MaxSize = 1
	disk := &faulty{}
	l, err := openWith(cfg, func(name string) (f file, err error) {
		disk.File, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		return &faulty{File: disk.File, write: disk.write}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "eve", Action: "Capture"}); err != nil {
		t.Fatal(err)
	}
	disk.write = full // of the next file
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "bob"}); !errors.Is(err, full) {
		t.Errorf("a change begins: %v", err)
	}
	l.file.(*faulty).write = nil
	l.cfg.MaxSize = DefaultMaxSize
	made(t, l, 1)
	l.Close()
	if err := os.Remove(filepath.Join(dir, olderName(1))); err != nil {
		t.Fatal(err)
	}
	if got := told(t, open(t, config(dir))); !strings.Contains(got, " eve Capture  UNKNOWN ") {
		t.Errorf("got\n%s", got)
	}
}

// TestOpenOnAFullDisk: a log with a request that is not done, and half an entry, is opened without room for
// what became of them.
func TestOpenOnAFullDisk(t *testing.T) {
	full := errors.New("no space left on device")
	dir := t.TempDir()
	l := open(t, config(dir))
	if _, _, err := l.Begin(t.Context(), Entry{Actor: "eve", Action: "Set"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.file.Write([]byte("{")); err != nil {
		t.Fatal(err)
	}
	disk := &faulty{write: full}
	again, err := openOn(dir, disk)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Problem(); !errors.Is(err, full) {
		t.Errorf("problem %v", err)
	}
	if _, _, err := again.Begin(t.Context(), Entry{Actor: "bob"}); !errors.Is(err, full) {
		t.Errorf("a change begins: %v", err)
	}
	disk.write = nil
	made(t, again, 1)
	if got, want := told(t, again), "5 ada Set 0 OK a=1>a=2 1\n3 eve Set  UNKNOWN > 0\n2 rdmad repair  OK > 0\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	verify(t, dir, 1, 5)
}

// TestDamageOnAFullDisk: a damaged log is opened without room for a copy of the damage. The copy is made, and the
// log goes on, as soon as there is room.
func TestDamageOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := open(t, config(dir))
	made(t, l, 2)
	l.Close()
	path := filepath.Join(dir, currentName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	lines[3] = strings.Replace(lines[3], "ada", "eve", 1)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(dir, damagePrefix+"00000000000000000004")
	if err := os.Mkdir(aside, 0o700); err != nil { // no copy can be made
		t.Fatal(err)
	}
	again := open(t, config(dir))
	problem := again.Problem()
	if problem == nil {
		t.Error("no problem")
	}
	if _, _, err := again.Begin(t.Context(), Entry{Actor: "bob"}); err == nil || problem != nil && err.Error() != problem.Error() {
		t.Errorf("a change begins: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != strings.Join(lines, "") {
		t.Errorf("the log was changed: %v\n%s", err, now)
	}
	if err := os.Remove(aside); err != nil {
		t.Fatal(err)
	}
	again.Retry()
	if err := again.Problem(); err != nil {
		t.Error(err)
	}
	if copied, err := os.ReadFile(aside); err != nil || string(copied) != lines[3] {
		t.Errorf("set aside: %v\n%s", err, copied)
	}
	if got, want := told(t, again), "6 rdmad repair  OK > 0\n5 ada Set 1 UNKNOWN > 0\n4 rdmad damage  DATA_LOSS > 0\n2 ada Set 0 OK a=1>a=2 1\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	verify(t, dir, 1, 6)
}

// TestCopyWithoutRoom: a copy of damage that can't be finished takes no room.
func TestCopyWithoutRoom(t *testing.T) {
	full, name := errors.New("no space left on device"), filepath.Join(t.TempDir(), "copy")
	if _, _, err := copyOut(name, io.MultiReader(strings.NewReader("damage"), iotest.ErrReader(full))); !errors.Is(err, full) {
		t.Errorf("copied: %v", err)
	}
	if left, err := os.ReadFile(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestUnreadableIsNotDamaged: a log of which the disk gives only a part is not opened. With the first entry after that,
// the rest would be moved away.
func TestUnreadableIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, currentName), 0o700); err != nil { // it can be opened, but not read
		t.Fatal(err)
	}
	l, err := openWith(config(dir), func(string) (file, error) { return os.Create(filepath.Join(dir, "other")) })
	if err == nil {
		l.Close()
		t.Error("opened")
	}
	if _, err := Verify(dir); err == nil || errors.As(err, new(*DamageError)) {
		t.Errorf("verified: %v", err)
	}
}

// TestUnreadableFinishedFile: while the disk does not give the end of the finished file, nothing can follow it.
func TestUnreadableFinishedFile(t *testing.T) {
	dir := t.TempDir()
	older := filepath.Join(dir, olderName(1))
	if err := os.Mkdir(older, 0o700); err != nil { // it can be opened, but not read
		t.Fatal(err)
	}
	if l, err := Open(config(dir)); err == nil {
		l.Close()
		t.Error("opened without a place to go on")
	}
	if err := os.Remove(older); err != nil {
		t.Fatal(err)
	}
	l := open(t, config(dir))
	made(t, l, 2)
	l.Close()
	if err := os.Mkdir(filepath.Join(dir, olderName(0)), 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, config(dir)) // the entries are in the file that is written
}
