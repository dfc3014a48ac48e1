package nfs

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// lister lists directories for READDIR and READDIRPLUS. A later call continues where an
// earlier one stopped, perhaps in another Server. The cookie is the position. The listing
// returns each name that exists all the time exactly once, whatever else changes.
type lister interface {
	// verifier returns the cookieverf3: cookies of other listers have another one.
	verifier() uint64
	// list calls emit for the entries after cookie, in order, until emit returns false. eof
	// means that it reached the end.
	list(dir *object, cookie uint64, emit func(*dirent) bool) (eof bool, err error)
}

// File systems whose directory offsets are good cookies: they belong to the name and not to
// its position.
var stableOffsets = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:  true, // hash of the name; ext2 and ext3 too
	unix.XFS_SUPER_MAGIC:   true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true,
}

// chooseLister chooses by the file system.
func chooseLister(s *subtree, fs *unix.Statfs_t) lister {
	if stableOffsets[fsType(fs)] || (fsType(fs) == unix.TMPFS_MAGIC && kernelAtLeast(6, 6)) {
		return byOffset{}
	}
	return newHashed(s)
}

// kernelAtLeast compares the version of the running kernel.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return releaseAtLeast(unix.ByteSliceToString(u.Release[:]), major, minor)
}

// releaseAtLeast compares a release such as "6.1.0-28-amd64".
func releaseAtLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || (a == major && b >= minor)
}

// byOffset uses the kernel's offsets as cookies.
type byOffset struct{}

func (byOffset) verifier() uint64 { return 0x72646d61646f6666 } // "rdmadoff"

// direntBuffer is how much of a directory is read at once, in bytes.
const direntBuffer = 32 << 10

var direntBuffers = sync.Pool{New: func() any { return new([direntBuffer]byte) }}

func (byOffset) list(dir *object, cookie uint64, emit func(*dirent) bool) (bool, error) {
	return eachDirent(func(b []byte) (int, error) { return dir.dirents(cookie, b) }, func(e *dirent) bool {
		more := emit(e)
		cookie = e.cookie
		return more
	})
}

// eachDirent calls see for the entries of a directory, which next reads as getdents64(2) does,
// until see returns false. end means that it reached the end.
func eachDirent(next func([]byte) (int, error), see func(*dirent) bool) (end bool, err error) {
	buf := direntBuffers.Get().(*[direntBuffer]byte)
	defer direntBuffers.Put(buf)
	var e dirent
	for {
		n, err := next(buf[:])
		if err != nil || n == 0 {
			return err == nil, err
		}
		for b := buf[:n]; len(b) > 0; {
			var ok bool
			if e, b, ok = nextDirent(b); !ok {
				return false, errIO
			}
			if !see(&e) {
				return false, nil
			}
		}
	}
}

// wholeDir calls see for all entries of the directory that fd, an O_PATH descriptor, refers to.
func (s *subtree) wholeDir(fd int, see func(*dirent)) error {
	data, err := s.reopen(fd, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(data)
	_, err = eachDirent(func(b []byte) (int, error) { return unix.Getdents(data, b) }, func(e *dirent) bool {
		see(e)
		return true
	})
	return err
}

// dirents reads entries from an offset on. Callers share the descriptor and its position.
func (o *object) dirents(offset uint64, b []byte) (int, error) {
	fd, err := o.reader()
	if err != nil {
		return 0, err
	}
	o.listing.Lock()
	defer o.listing.Unlock()
	if _, err := unix.Seek(fd, int64(offset), unix.SEEK_SET); err != nil {
		if err == unix.EINVAL {
			err = errBadCookie
		}
		return 0, err
	}
	return unix.Getdents(fd, b)
}
