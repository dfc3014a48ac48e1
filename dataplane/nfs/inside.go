package nfs

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// below reports whether the open directory fd is top or a directory below it at this
// moment. It goes up by "..", so names do not matter.
func below(fd int, top *posix.Place) (bool, error) {
	var here posix.Place
	if err := posix.PlaceOf(fd, &here); err != nil {
		return false, err
	}
	return belowFrom(fd, here, top)
}

// belowFrom is below for a directory whose place is known.
func belowFrom(fd int, here posix.Place, top *posix.Place) (bool, error) {
	var above posix.Place
	for level := 1; level <= posix.MaxUp; level++ {
		if here == *top {
			return true, nil
		}
		if err := posix.PlaceAbove(fd, level, &above); err != nil {
			return false, err
		}
		if above == here {
			break // the root of all
		}
		here = above
	}
	return climb(fd, top)
}

// climb is below for a directory of which belowFrom did not find top among its ancestors: it may have
// more, or somebody may have moved it to another level meanwhile, so that belowFrom missed top. climb
// opens each ancestor, and continues from there.
func climb(fd int, top *posix.Place) (bool, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	var here, above posix.Place
	up, err := unix.Openat(fd, ".", flags, 0)
	for err == nil {
		fd, here = up, above
		if err = posix.PlaceOf(fd, &above); err != nil || above == *top || above == here {
			unix.Close(fd)
			return err == nil && above == *top, err
		}
		up, err = unix.Openat(fd, "..", flags, 0)
		unix.Close(fd)
	}
	return false, err
}

// inside checks that an object is now in the export's directory tree. Its handle proves
// that it once was. Since then a local user may have moved it out.
//
// For a directory, it checks the ancestors. Other objects have no way up, so it asks the
// kernel for the path under which it knows them, if any. A file with several names may be
// in the export under another one, and a file that the kernel opened by its handle has no
// path. Both pass, because they lead only to themselves.
func (s *subtree) inside(o *object) error {
	if o.isDir() {
		return s.insideDir(o)
	}
	var st unix.Stat_t
	if err := unix.Fstat(o.path, &st); err != nil {
		return err
	}
	if st.Nlink == 1 && !s.pathInside(o.path) {
		return errStale
	}
	return nil
}

// insideDir is inside for a directory whose names will be used.
func (s *subtree) insideDir(o *object) error {
	if o == s.top {
		return nil
	}
	ok, err := belowFrom(o.path, o.place, &s.place)
	if errors.Is(err, unix.EACCES) { // not root, and no right to go up: use the path
		ok, err = s.pathInside(o.path), nil
	}
	if err == nil && !ok {
		err = errStale
	}
	return err
}

// mostLooks is how often pathInside looks when somebody renames all the time.
const mostLooks = 100

// pathInside returns false if the path of fd is known to be outside the export. The paths are two readlinks, and
// somebody may rename a directory above both in between. So if they differ it looks at the directory, until the path
// leads to fd, or is twice the same where rdmad has no right to look.
func (s *subtree) pathInside(fd int) bool {
	before := ""
	for range mostLooks {
		path, top := pathOf(fd), pathOf(s.top.path)
		switch {
		case path == "", top == "", path == "/", top == "/", strings.HasSuffix(path, " (deleted)"):
			return true // a path is not known, the export is the root, or the object's path is a former one
		case strings.HasPrefix(path, top+"/"):
			return true
		}
		inside, err := s.dirInside(fd, path)
		if err == nil || path == before && errors.Is(err, unix.EACCES) {
			return inside
		}
		before = path
	}
	return false
}

// dirInside reports whether the directory in which a path leads to fd is in the export. The error is ENOENT if the
// path does not lead there.
func (s *subtree) dirInside(fd int, path string) (inside bool, err error) {
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	var st, there unix.Stat_t
	inside, err = below(dir, &s.place)
	err = cmp.Or(err, unix.Fstat(fd, &st), unix.Fstatat(dir, filepath.Base(path), &there, unix.AT_SYMLINK_NOFOLLOW))
	if err == nil && (st.Ino != there.Ino || st.Dev != there.Dev) {
		err = unix.ENOENT
	}
	return inside, err
}

// pathOf returns the path under which the kernel knows an open object, or "" if that is too long.
func pathOf(fd int) string {
	var b [unix.PathMax]byte
	n, err := unix.Readlink(procPath(fd), b[:])
	if err != nil || n == len(b) {
		return ""
	}
	return string(b[:n])
}
