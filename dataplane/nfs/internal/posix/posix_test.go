package posix

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestHandleOf checks that a handle names the object, not its name, and equals
// the handle from golang.org/x/sys/unix.
func TestHandleOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("content"), 0o600))
	fd := open(t, path, unix.O_PATH)
	var h Handle
	mount, err := HandleOf(fd, &h, 0)
	must(t, err)
	want, wantMount, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	must(t, err)
	if h.Kind() != want.Type() || !bytes.Equal(h.Bytes(), want.Bytes()) || mount != wantMount {
		t.Errorf("type %d, % x, mount %d; want %d, % x, %d", h.Kind(), h.Bytes(), mount, want.Type(), want.Bytes(), wantMount)
	}
	if id, err := Mount(fd); err != nil || (id != mount && id != 0) {
		t.Errorf("mount %d, %v, want %d", id, err, mount)
	}
	must(t, os.Rename(path, path+"2"))
	var again Handle
	_, err = HandleOf(fd, &again, 0)
	must(t, err)
	if again != h {
		t.Error("another handle under another name")
	}
	var set Handle
	set.Set(h.Kind(), h.Bytes())
	if !bytes.Equal(set.Bytes(), h.Bytes()) || set.Kind() != h.Kind() {
		t.Error("Set does not make the same handle")
	}
	if _, err := HandleOf(-1, &h, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}

// TestOpenHandle checks that opening by handle needs a capability that ordinary
// users don't have.
func TestOpenHandle(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("content"), 0o600))
	top := open(t, dir, unix.O_RDONLY)
	var h Handle
	named, err := unix.Open(path, unix.O_PATH, 0)
	must(t, err)
	_, err = HandleOf(named, &h, 0)
	must(t, err)
	must(t, unix.Close(named))
	fd, err := OpenHandle(top, &h, unix.O_RDONLY)
	var c caps
	if !c.get() {
		t.Fatal("no capabilities")
	}
	if c[0].Effective&(1<<unix.CAP_DAC_READ_SEARCH) == 0 {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("without the right: %v", err)
		}
		return
	}
	must(t, err)
	b := make([]byte, 10)
	if n, err := Read(fd, b, 0); err != nil || string(b[:n]) != "content" {
		t.Errorf("%q, %v", b[:n], err)
	}
	must(t, os.Remove(path))
	unix.Close(fd)
	if _, err := OpenHandle(top, &h, unix.O_PATH); !errors.Is(err, unix.ESTALE) {
		t.Errorf("gone: %v", err)
	}
}

func TestReadAndWrite(t *testing.T) {
	fd := open(t, filepath.Join(t.TempDir(), "f"), unix.O_RDWR|unix.O_CREAT)
	data := bytes.Repeat([]byte("0123456789"), 1000)
	for i, level := range []Sync{NoSync, DataSync, FileSync} {
		offset := int64(i) << 33 // more than 32 bits
		n, err := Write(fd, [][]byte{data}, offset, level)
		if n != len(data) || err != nil {
			t.Fatalf("level %d: %d, %v", level, n, err)
		}
		got := make([]byte, len(data)+5)
		n, err = Read(fd, got, offset)
		if err != nil || n != len(data) || !bytes.Equal(got[:n], data) {
			t.Errorf("level %d: %d bytes, %v", level, n, err)
		}
	}
	if n, err := Write(fd, nil, 0, DataSync); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	ro := open(t, fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY)
	for _, level := range []Sync{NoSync, DataSync, FileSync} {
		if _, err := Write(ro, [][]byte{data}, 0, level); !errors.Is(err, unix.EBADF) {
			t.Errorf("read-only: %v", err)
		}
	}
	if _, err := Read(fd, make([]byte, 1), -1); !errors.Is(err, unix.EINVAL) {
		t.Errorf("offset -1: %v", err)
	}
}

// TestWriteParts writes more parts than one system call takes. They must be in
// the file one after the other.
func TestWriteParts(t *testing.T) {
	fd := open(t, filepath.Join(t.TempDir(), "f"), unix.O_RDWR|unix.O_CREAT)
	for i, level := range []Sync{NoSync, DataSync, FileSync} {
		var data [][]byte
		var want []byte
		for k := range 2*maxParts + 3 {
			part := bytes.Repeat([]byte{byte(k + i)}, 1+k)
			data, want = append(data, part), append(want, part...)
		}
		n, err := Write(fd, data, 7, level)
		if n != len(want) || err != nil {
			t.Fatalf("level %d: %d, %v", level, n, err)
		}
		got := make([]byte, len(want))
		if n, err = Read(fd, got, 7); err != nil || n != len(want) || !bytes.Equal(got, want) {
			t.Errorf("level %d: %d bytes, %v", level, n, err)
		}
	}
	data := [][]byte{{1, 2, 3}, {4, 5}, {6}}
	if left := after(data, 4); len(left) != 2 || len(left[0]) != 1 || left[0][0] != 5 {
		t.Errorf("after 4 bytes: %v", left)
	}
}

func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a/b/c")
	must(t, os.MkdirAll(deep, 0o755))
	fd := open(t, deep, unix.O_PATH)
	for levels := 1; levels <= 3; levels++ {
		var got, want Place
		must(t, PlaceAbove(fd, levels, &got))
		must(t, PlaceOf(open(t, filepath.Join(deep, strings.Repeat("../", levels)), unix.O_PATH), &want))
		if got != want {
			t.Errorf("%d up: %+v, want %+v", levels, got, want)
		}
	}
	var top, root Place
	must(t, PlaceAbove(fd, MaxUp, &top))
	must(t, PlaceOf(open(t, "/", unix.O_PATH), &root))
	if top != root {
		t.Errorf("far up: %+v, want %+v", top, root)
	}
	if err := PlaceOf(-1, &top); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}

func TestAccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, nil, 0o600))
	fd := open(t, path, unix.O_PATH)
	if err := Access(fd, unix.R_OK|unix.W_OK); err != nil {
		t.Error(err)
	}
	if err := Access(fd, unix.X_OK); !errors.Is(err, unix.EACCES) {
		t.Errorf("nobody may execute it: %v", err)
	}
}

// TestSwitcher checks that a thread that acts as a user has that user's rights
// and no more, and gets its own back. Without root, nobody can act as another
// user.
func TestSwitcher(t *testing.T) {
	s, ok := NewSwitcher(uint32(os.Getegid()), nil)
	if os.Geteuid() != 0 {
		if ok {
			t.Error("a switcher without the rights for one")
		}
		return
	}
	if !ok {
		t.Fatal("no switcher for root")
	}
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, nil, 0o600))
	fd := open(t, path, unix.O_PATH)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadStatus(t)
	if !s.Assume(4711, 4712, []uint32{5, 6}) {
		t.Fatal("Assume failed")
	}
	during := threadStatus(t)
	err := Access(fd, unix.R_OK)
	if !s.Restore() {
		t.Fatal("Restore failed")
	}
	if !errors.Is(err, unix.EACCES) {
		t.Errorf("the user may read root's file: %v", err)
	}
	for _, line := range []string{"Uid:\t0\t4711\t0\t4711\n", "Gid:\t0\t4712\t0\t4712\n", "Groups:\t5 6", "CapEff:\t0000000000000000\n"} {
		if !strings.Contains(during, line) {
			t.Errorf("no %q in\n%s", line, during)
		}
	}
	var c caps
	if !c.get() || c[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != s.own[0].Effective&(1<<unix.CAP_SYS_RESOURCE) {
		t.Error("a capability did not come back")
	}
	if after := threadStatus(t); after != before {
		t.Errorf("afterwards\n%s\nand not\n%s", after, before)
	}
	if s.Assume(1, 1, make([]uint32, maxGroups+1)) {
		t.Error("too many groups are taken")
	}
	if s.Assume(^uint32(0), 1, nil) {
		t.Error("an invalid user is taken")
	}
	if !s.Restore() {
		t.Error("Restore failed")
	}
}

// threadStatus returns the kernel's view of this thread's identity.
func threadStatus(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/status")
	must(t, err)
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "Uid", "Gid", "Groups", "CapEff", "CapPrm":
			out.WriteString(line)
		}
	}
	return out.String()
}
