package posix

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func named(s string) *Name {
	n := &Name{}
	n.Set([]byte(s))
	return n
}

func TestName(t *testing.T) {
	n := named(strings.Repeat("n", MaxName))
	if n.String() != strings.Repeat("n", MaxName) {
		t.Errorf("the longest name: %d bytes", len(n.String()))
	}
	n.Set([]byte("ab"))
	if n.String() != "ab" || !bytes.HasPrefix(n.b[:], []byte("ab\x00")) {
		t.Errorf("%q", n.b[:4])
	}
}

// TestHandleAt checks that an object has the same handle by name and by
// descriptor. A symbolic link has a handle of its own: it is not followed.
func TestHandleAt(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	must(t, os.Symlink("f", filepath.Join(dir, "l")))
	top := open(t, dir, unix.O_PATH)
	var handles [2]Handle
	for i, name := range []string{"f", "l"} {
		var h Handle
		mount, err := HandleAt(top, named(name), &h)
		must(t, err)
		fd, err := OpenBeneath(top, named(name), unix.O_PATH)
		must(t, err)
		defer unix.Close(fd)
		wantMount, err := HandleOf(fd, &handles[i], 0)
		must(t, err)
		if h != handles[i] || mount != wantMount {
			t.Errorf("%s: % x on mount %d, want % x on %d", name, h.Bytes(), mount, handles[i].Bytes(), wantMount)
		}
	}
	if handles[0] == handles[1] {
		t.Error("the link was followed")
	}
	if _, err := HandleAt(top, named("none"), &handles[0]); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no such name: %v", err)
	}
}

func TestNamesInDirectories(t *testing.T) {
	dir := t.TempDir()
	top := open(t, dir, unix.O_PATH)
	fd, err := OpenAt(top, named("f"), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o640)
	must(t, err)
	defer unix.Close(fd)
	atime, mtime := unix.Timespec{Sec: 5, Nsec: 6}, unix.Timespec{Sec: 7, Nsec: 8}
	must(t, SetTimes(fd, atime, mtime))
	must(t, Mkdir(top, named("d"), 0o750))
	must(t, os.Symlink("f", filepath.Join(dir, "l")))
	var st unix.Stat_t
	must(t, unix.Lstat(filepath.Join(dir, "f"), &st))
	if st.Mode&^0o022 != unix.S_IFREG|0o640 || st.Atim != atime || st.Mtim != mtime {
		t.Errorf("%+v", st)
	}
	for _, tc := range []struct {
		err, want error
	}{
		{fails(OpenAt(top, named("f"), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o640)), unix.EEXIST},
		{fails(OpenAt(top, named("l"), unix.O_RDONLY, 0)), unix.ELOOP},
		{fails(OpenBeneath(top, named(".."), unix.O_PATH)), unix.EXDEV},
		{fails(OpenBeneath(top, named("none"), unix.O_PATH)), unix.ENOENT},
		{Mkdir(top, named("d"), 0o750), unix.EEXIST},
		{Unlink(top, named("d"), 0), unix.EISDIR},
		{Rename(top, named("none"), top, named("x")), unix.ENOENT},
		{Rename(top, named("f"), top, named("g")), nil},
		{Unlink(top, named("f"), 0), unix.ENOENT},
		{Unlink(top, named("g"), 0), nil},
		{Unlink(top, named("d"), unix.AT_REMOVEDIR), nil},
		{SetTimes(-1, atime, mtime), unix.EBADF},
	} {
		if !errors.Is(tc.err, tc.want) {
			t.Errorf("%v, want %v", tc.err, tc.want)
		}
	}
}

// fails returns the error of a call that must not open anything.
func fails(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}
