package posix

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/bulk"
)

// Sync says how much of a write is on stable storage when Write returns.
type Sync int

// Levels of synchronization (pwritev2(2)).
const (
	NoSync   Sync = 0
	DataSync Sync = unix.RWF_DSYNC // the data and the metadata needed to read it
	FileSync Sync = unix.RWF_SYNC  // the data and all attributes
)

// maxParts is the most parts in one system call.
const maxParts = 16

// ErrNothing is the error of a write of which the file system took nothing and did not say why, as
// FUSE file systems with direct I/O may. It is an EIO.
var ErrNothing = fmt.Errorf("nothing of a write was taken: %w", unix.EIO)

// Write writes all of data at offset in as few system calls as possible. No
// part of data may be empty. Write returns the number of bytes written before
// an error. It changes the slices in data.
func Write(fd int, data [][]byte, offset int64, level Sync) (n int, err error) {
	for len(data) > 0 {
		m, err := write(fd, data[:min(len(data), maxParts)], offset+int64(n), level)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && m == 0 {
			err = ErrNothing
		}
		if err != nil {
			return n, err
		}
		n += m
		data = after(data, m)
	}
	return n, nil
}

// after returns what follows the first n bytes of data.
func after(data [][]byte, n int) [][]byte {
	for len(data) > 0 && n >= len(data[0]) {
		n -= len(data[0])
		data = data[1:]
	}
	if n > 0 {
		data[0] = data[0][n:]
	}
	return data
}

func write(fd int, data [][]byte, offset int64, level Sync) (int, error) {
	if level == NoSync {
		return writeParts(fd, data, offset)
	}
	n, err := pwritev2(fd, data, offset, level)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return n, err
	}
	if n, err = writeParts(fd, data, offset); err != nil {
		return n, err
	}
	if level == FileSync {
		return n, unix.Fsync(fd)
	}
	return n, unix.Fdatasync(fd)
}

func writeParts(fd int, data [][]byte, offset int64) (int, error) {
	if len(data) == 1 {
		return unix.Pwrite(fd, data[0], offset)
	}
	return unix.Pwritev(fd, data, offset)
}

// pwritev2 writes data, which has 1 to maxParts parts, none of them empty
// (pwritev2(2)).
func pwritev2(fd int, data [][]byte, offset int64, level Sync) (int, error) {
	var v [maxParts]unix.Iovec
	for i, part := range data {
		v[i].Base = &part[0]
		v[i].SetLen(len(part))
	}
	// The kernel joins two words, each half an offset wide, into the offset. On
	// 64-bit machines the second word is 0.
	r, _, errno := unix.Syscall6(unix.SYS_PWRITEV2, uintptr(fd), uintptr(unsafe.Pointer(&v[0])), uintptr(len(data)),
		uintptr(offset), uintptr(uint64(offset)>>(wordBits/2)>>(wordBits/2)), uintptr(level))
	runtime.KeepAlive(data)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

const wordBits = 8 * int(unsafe.Sizeof(uintptr(0)))

// Read reads into b from offset on, until b is full or the file ends. If an error, such as a bad
// sector, comes after some data, Read returns the data without the error. A Read that begins at the
// error returns it.
func Read(fd int, b []byte, offset int64) (n int, err error) {
	for n < len(b) {
		m, err := read(fd, b[n:], offset+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && n == 0:
			return 0, err
		case err != nil || m == 0:
			return n, nil //nolint:nilerr // see above
		}
		n += m
	}
	return n, nil
}

// read makes one system call for b or, for much data that is not in the page cache, two. It
// has a place (package bulk) only while it need not wait for a disk.
func read(fd int, b []byte, offset int64) (int, error) {
	if placed := bulk.Enter(len(b)); placed {
		n, err := readCached(fd, b, offset)
		bulk.Leave(placed)
		if err == nil {
			return n, nil
		}
	}
	return unix.Pread(fd, b, offset)
}

// readCached reads what is in the page cache (preadv2(2), RWF_NOWAIT). It fails if that is
// nothing, or if the file system cannot do it.
func readCached(fd int, b []byte, offset int64) (int, error) {
	return unix.Preadv2(fd, [][]byte{b}, offset, unix.RWF_NOWAIT)
}
