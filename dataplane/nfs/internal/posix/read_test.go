package posix

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/bulk/bulktest"
)

// TestMuchDataTakesPlaces: while all places of package bulk are taken, a large Read waits,
// and a small one does not.
func TestMuchDataTakesPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	must(t, os.WriteFile(path, want, 0o600))
	fd := open(t, path, unix.O_RDONLY)
	places := bulktest.Occupy()
	done := make(chan struct{})
	got := make([]byte, len(want)+1)
	go func() {
		defer close(done)
		if n, err := Read(fd, got, 0); n != len(want) || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}()
	places.AwaitOne(t, done)
	var small [16]byte
	if n, err := Read(fd, small[:], 16); n != 16 || err != nil || string(small[:]) != "0123456789abcdef" {
		t.Errorf("%d bytes, %v: %q", n, err, small)
	}
	places.Release()
	<-done
	if !bytes.Equal(got[:len(want)], want) {
		t.Error("wrong data")
	}
	bulktest.AwaitNone()
}

// TestReadBeforeAnError: memory that can't be written stands for a disk that can't be read.
func TestReadBeforeAnError(t *testing.T) {
	page := unix.Getpagesize()
	path := filepath.Join(t.TempDir(), "f")
	want := bytes.Repeat([]byte("0123456789abcdef"), page/8)
	must(t, os.WriteFile(path, want, 0o600))
	fd := open(t, path, unix.O_RDONLY)
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	defer func() { must(t, unix.Munmap(b)) }()
	must(t, unix.Mprotect(b[page:], unix.PROT_NONE))
	if n, err := Read(fd, b, 0); n != page || err != nil || !bytes.Equal(b[:n], want[:n]) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n, err := Read(fd, b[page:], int64(page)); n != 0 || !errors.Is(err, unix.EFAULT) {
		t.Errorf("what comes next: %d bytes, %v", n, err)
	}
}

// TestReadOfUncachedFiles: a file system without a page cache, or that is not asked to wait,
// gives the same bytes.
func TestReadOfUncachedFiles(t *testing.T) {
	fd := open(t, "/proc/self/status", unix.O_RDONLY)
	b := make([]byte, 1<<20)
	if n, err := Read(fd, b, 0); err != nil || !bytes.HasPrefix(b[:n], []byte("Name:")) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
