package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// File is an open file. Its methods are called one after another, except Doubt.
type File struct {
	path    string
	lock    *os.File // keeps other processes from writing
	now     *snapshot
	text    []byte                                   // of now
	doubt   atomic.Pointer[error]                    // of a write that may or may not be on the disk
	replace func(path string, contents []byte) error // tests have it fail
	limit   int                                      // maxTail, or less in tests
}

// beside is the name of what belongs to the file at path.
func beside(path, what string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + what }

// keptAs is for the file of an earlier rdmad.
const keptAs = ".bbolt"

// segments is the directory of the file's segments. Its lock is the file's.
func segments(path string) string { return beside(path, ".history") }

// Open opens a file and returns its contents. It keeps the file of an earlier rdmad under
// another name, and makes one of the present format. Errors: os.ErrNotExist, *RefusedError, and
// those of the system.
func Open(path string) (*File, *Contents, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, nil, err
	}
	d, err := lock(segments(path))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, plain(err))
	}
	f := &File{path: path, lock: d, replace: replace, limit: maxTail}
	c, err := f.open()
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	f.removeStrays()
	return f, c, nil
}

func (f *File) open() (c *Contents, err error) {
	f.now, c, f.text, err = load(f.path)
	if err != nil || !isOld(f.text) {
		return c, err
	}
	c.Kept = beside(f.path, keptAs)
	err = f.replace(c.Kept, f.text)
	if err == nil {
		err = f.write(f.now)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, plain(err))
	}
	return c, nil
}

// removeStrays removes what a crash left behind: files that had no name yet, and
// segments that nothing names, because the file that was to name them was not written or because
// their own end was not.
func (f *File) removeStrays() {
	dir := segments(f.path)
	strays := slices.Concat(matching(dir, "*-*"), matching(dir, ".*"), matching(filepath.Dir(f.path), "."+filepath.Base(f.path)+"[0-9]*"))
	for _, name := range append(strays, spareOf(beside(f.path, keptAs))) {
		if !slices.ContainsFunc(f.now.Segments, func(g segment) bool { return g.name() == filepath.Base(name) }) {
			os.Remove(name)
		}
	}
}

// matching returns the files of a directory whose names match a pattern.
func matching(dir, pattern string) (paths []string) {
	names, _ := fs.Glob(os.DirFS(dir), pattern)
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// lock makes a directory and locks it, until the file that it gives is closed.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("is in use by another rdmad")
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Create makes a file at revision 0 and leaves it closed. The file never has its name while it
// is incomplete.
func Create(path string, f settings.FileLayer) error {
	s := &snapshot{state: state{Oldest: 1, File: f}}
	s.see(&f)
	text, err := s.text()
	if err == nil {
		err = replace(path, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	return nil
}

// plain leaves the path out: the caller names it.
func plain(err error) error {
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// Doubt returns the reason why every Commit is refused until the file is opened again, or nil.
func (f *File) Doubt() error {
	if why := f.doubt.Load(); why != nil {
		return fmt.Errorf("%s: in doubt since an earlier failure (%w); restart rdmad", f.path, *why)
	}
	return nil
}

// Commit writes r to the disk, completely or not at all. If a failed write may have reached the
// disk, Commit undoes it. If that fails too, every later Commit is refused until the file is
// opened again.
func (f *File) Commit(r *Record) error {
	if err := f.Doubt(); err != nil {
		return err
	}
	next, err := f.now.after(r)
	if err == nil {
		err = f.write(next)
	}
	if err == nil {
		return nil
	}
	err = plain(err)
	if takeBack := f.takeBack(); takeBack != nil {
		f.doubt.Store(&err)
		return fmt.Errorf("%s: %w; nor could that be taken back: %w", f.path, err, takeBack)
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// write makes next what the file holds: first its new segment, then the file,
// which names it. Segments that nothing names any more go last.
func (f *File) write(next *snapshot) error {
	if entries := next.spill(f.limit); entries != nil {
		newest := next.Segments[len(next.Segments)-1]
		if err := f.replace(filepath.Join(segments(f.path), newest.name()), entries); err != nil {
			return err
		}
	}
	text, err := next.text()
	if err != nil {
		return err
	}
	if err := f.replace(f.path, text); err != nil {
		return err
	}
	for _, g := range f.now.Segments {
		if g.First+g.Entries <= next.Oldest {
			os.Remove(filepath.Join(segments(f.path), g.name()))
		}
	}
	f.now, f.text = next, text
	return nil
}

// takeBack puts back what a failed write replaced, if it did.
func (f *File) takeBack() error {
	if data, err := os.ReadFile(f.path); err == nil && bytes.Equal(data, f.text) {
		return nil
	}
	return f.replace(f.path, f.text)
}

// Close closes the file.
func (f *File) Close() error { return f.lock.Close() }
