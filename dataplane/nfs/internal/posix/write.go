package posix

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sync says how much of a write is on stable storage when it returns.
type Sync int

// Levels of synchronization (pwritev2(2)).
const (
	NoSync   Sync = 0
	DataSync Sync = unix.RWF_DSYNC // the data, and what is needed to read it
	FileSync Sync = unix.RWF_SYNC  // the data and all attributes
)

// Write writes all of b at offset, in as few calls as the kernel lets it. It
// returns what was written before an error.
func Write(fd int, b []byte, offset int64, level Sync) (n int, err error) {
	for n < len(b) {
		m, err := write(fd, b[n:], offset+int64(n), level)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

func write(fd int, b []byte, offset int64, level Sync) (int, error) {
	if level == NoSync {
		return unix.Pwrite(fd, b, offset)
	}
	n, err := pwritev2(fd, b, offset, level)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return n, err
	}
	if n, err = unix.Pwrite(fd, b, offset); err != nil {
		return n, err
	}
	if level == FileSync {
		return n, unix.Fsync(fd)
	}
	return n, unix.Fdatasync(fd)
}

// pwritev2 writes b, which is not empty.
func pwritev2(fd int, b []byte, offset int64, level Sync) (int, error) {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	// The kernel puts the offset together from two words of half its size:
	// on 64-bit machines the second has no bits left to give.
	r, _, errno := unix.Syscall6(unix.SYS_PWRITEV2, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1,
		uintptr(offset), uintptr(uint64(offset)>>(wordBits/2)>>(wordBits/2)), uintptr(level))
	runtime.KeepAlive(b)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

const wordBits = 8 * int(unsafe.Sizeof(uintptr(0)))

// Read fills b from offset on, up to the end of the file.
func Read(fd int, b []byte, offset int64) (n int, err error) {
	for n < len(b) {
		m, err := unix.Pread(fd, b[n:], offset+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}
