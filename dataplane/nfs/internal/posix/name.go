package posix

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxName is the longest name in a directory, in bytes (NAME_MAX).
const MaxName = 255

// Name is a name in a directory, as a C string for the kernel.
type Name struct {
	b [MaxName + 1]byte // ends with a NUL
	n int
}

// Set sets the name to s, which must have 1 to MaxName bytes and no NUL.
func (n *Name) Set(s []byte) {
	n.n = copy(n.b[:MaxName], s)
	n.b[n.n] = 0
}

// String returns a copy of the name.
func (n *Name) String() string { return string(n.b[:n.n]) }

// OpenAt is openat(2). It does not follow a symbolic link in name.
func OpenAt(dir int, name *Name, flags int, mode uint32) (fd int, err error) {
	r, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&name.b[0])),
		uintptr(flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_LARGEFILE), uintptr(mode), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// OpenBeneath is OpenAt for objects on the mount of dir only (openat2(2), Linux
// 5.6). The error is EXDEV if something else is mounted on the name.
func OpenBeneath(dir int, name *Name, flags uint64) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	r, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(&name.b[0])),
		uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// Unlink is unlinkat(2).
func Unlink(dir int, name *Name, flags int) error {
	_, _, errno := unix.Syscall(unix.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&name.b[0])), uintptr(flags))
	return errorOf(errno)
}

// Mkdir is mkdirat(2).
func Mkdir(dir int, name *Name, mode uint32) error {
	_, _, errno := unix.Syscall(unix.SYS_MKDIRAT, uintptr(dir), uintptr(unsafe.Pointer(&name.b[0])), uintptr(mode))
	return errorOf(errno)
}

// Rename is renameat2(2) without flags.
func Rename(dir int, name *Name, toDir int, toName *Name) error {
	_, _, errno := unix.Syscall6(unix.SYS_RENAMEAT2, uintptr(dir), uintptr(unsafe.Pointer(&name.b[0])),
		uintptr(toDir), uintptr(unsafe.Pointer(&toName.b[0])), 0, 0)
	return errorOf(errno)
}

// SetTimes is futimens(3). fd must not be an O_PATH descriptor.
func SetTimes(fd int, atime, mtime unix.Timespec) error {
	times := [2]unix.Timespec{atime, mtime}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
	return errorOf(errno)
}

// errorOf returns errno as an error, or nil for 0.
func errorOf(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
