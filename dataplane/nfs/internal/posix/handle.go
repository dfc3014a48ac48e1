// Package posix has the Linux system calls of the NFS service that
// golang.org/x/sys/unix does not provide: file handles and synchronous writes
// without allocations, and a thread's file system identity. It is the only
// package of the service that uses unsafe.
//
// The caller must close the descriptors that the package returns. They have
// close-on-exec set.
package posix

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxHandle is the largest handle that the kernel gives, in bytes
// (MAX_HANDLE_SZ).
const MaxHandle = 128

// Handle is a struct file_handle: a file system's permanent identifier of an
// object, independent of its names (name_to_handle_at(2)).
type Handle struct {
	size uint32
	kind int32
	data [MaxHandle]byte
}

// Set sets the type and the opaque part of h. b is at most MaxHandle bytes.
func (h *Handle) Set(kind int32, b []byte) {
	h.kind = kind
	h.size = uint32(copy(h.data[:], b))
}

// Kind returns the file system's type of handle.
func (h *Handle) Kind() int32 { return h.kind }

// Bytes returns the handle's opaque part. It aliases h.
func (h *Handle) Bytes() []byte { return h.data[:h.size] }

// NameOnly requests a handle that identifies an object and may not work with
// OpenHandle (AT_HANDLE_FID, Linux 6.5).
const NameOnly = unix.AT_REMOVEDIR

// HandleOf stores in h the handle of the open object fd, which may be an O_PATH
// descriptor. It returns the ID of fd's mount. flags is 0 or NameOnly; with
// NameOnly the ID is 0.
func HandleOf(fd int, h *Handle, flags int) (mount int, err error) {
	return handleAt(fd, &empty[0], h, unix.AT_EMPTY_PATH|uintptr(flags))
}

// HandleAt stores in h the handle of the object that name refers to in dir. It
// returns the ID of the object's mount, which differs from dir's if something
// is mounted on the name. It does not follow symbolic links.
func HandleAt(dir int, name *Name, h *Handle) (mount int, err error) {
	return handleAt(dir, &name.b[0], h, 0)
}

func handleAt(dir int, path *byte, h *Handle, flags uintptr) (mount int, err error) {
	var id int32
	h.size = MaxHandle
	_, _, errno := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(dir), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&id)), flags, 0)
	return int(id), errorOf(errno)
}

// OpenHandle opens the object with handle h on the mount of mountFD. mountFD
// must not be an O_PATH descriptor. OpenHandle needs CAP_DAC_READ_SEARCH.
func OpenHandle(mountFD int, h *Handle, flags int) (fd int, err error) {
	for retries := 0; ; retries++ {
		r, _, errno := unix.Syscall(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(mountFD),
			uintptr(unsafe.Pointer(h)), uintptr(flags|unix.O_CLOEXEC|unix.O_LARGEFILE))
		runtime.KeepAlive(h)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		case unix.ENOMEM:
			// ext4 returns ENOMEM for a moment while it gives the inode number
			// to a new file.
			if retries == maxRetries {
				return -1, errno
			}
			runtime.Gosched()
		default:
			return -1, errno
		}
	}
}

const maxRetries = 100

var empty [1]byte // ""
