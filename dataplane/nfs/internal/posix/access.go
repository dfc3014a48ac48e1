package posix

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Access checks whether the thread's file system identity has all rights of
// mask (R_OK, W_OK, X_OK) on the open object fd. fd may be an O_PATH descriptor
// (faccessat2(2), Linux 5.8). The error is a unix.Errno.
func Access(fd int, mask uint32) error {
	_, _, errno := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])),
		uintptr(mask), unix.AT_EACCESS|unix.AT_EMPTY_PATH, 0, 0)
	return errorOf(errno)
}
