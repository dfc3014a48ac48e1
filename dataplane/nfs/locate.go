package nfs

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// locator finds objects by their IDs.
type locator interface {
	// open opens an object as O_PATH for a call. It returns errStale if there is none.
	open(r *request, id fh.ID) (fd int, err error)
	// learn records that the directory parent has an object under name.
	learn(parent *object, id fh.ID, name *posix.Name)
	// unlearn records that it no longer has one. last means that this was the object's last
	// name.
	unlearn(parent *object, id fh.ID, name *posix.Name, last bool)
	// close ends what the locator does by itself. No call runs any more.
	close()
}

// byHandle opens objects by the kernel's handles. It needs CAP_DAC_READ_SEARCH and support
// of the file system.
type byHandle struct{ mount int }

func (l byHandle) open(_ *request, id fh.ID) (int, error) {
	if id.Kind != fh.Kernel {
		return -1, errStale
	}
	var kh posix.Handle
	kh.Set(int32(id.Type), id.Bytes())
	fd, err := posix.OpenHandle(l.mount, &kh, unix.O_PATH|unix.O_NOFOLLOW)
	if isOneOf(err, unix.EINVAL, unix.EOVERFLOW) {
		err = errStale
	}
	return fd, err
}

// opensIDs reports whether the kernel opens objects by handle.
func (s *subtree) opensIDs() bool {
	_, ok := s.locate.(byHandle)
	return ok
}

func (byHandle) learn(*object, fh.ID, *posix.Name)         {}
func (byHandle) unlearn(*object, fh.ID, *posix.Name, bool) {}
func (byHandle) close()                                    {}

// chooseLocator tries what the kernel, the file system and the process's rights allow. top
// is the export's root directory as O_PATH, on the file system fs.
func chooseLocator(s *subtree, top int, fs *unix.Statfs_t, opt options) locator {
	var kh posix.Handle
	s.idKind = fh.Kernel
	if opt.inodeIDs || !handleFits(top, &kh, fh.Kernel) {
		s.idKind = fh.Inode
		// overlayfs without nfs_export returns handles of objects but cannot open them.
		// Elsewhere such handles may have no generation.
		if fsType(fs) == unix.OVERLAYFS_SUPER_MAGIC && handleFits(top, &kh, fh.Name) {
			s.idKind = fh.Name
		}
		return newByName(s)
	}
	mount := int(s.dir.Fd())
	fd, err := posix.OpenHandle(mount, &kh, unix.O_PATH)
	if err != nil || opt.byName {
		if err == nil {
			unix.Close(fd)
		}
		return newByName(s)
	}
	unix.Close(fd)
	return byHandle{mount: mount}
}

// handleFits gets the handle of an open object, and reports whether there is one that fits
// into ours.
func handleFits(fd int, kh *posix.Handle, kind fh.Kind) bool {
	flags := 0
	if kind == fh.Name {
		flags = posix.NameOnly
	}
	if _, err := posix.HandleOf(fd, kh, flags); err != nil {
		return false
	}
	_, ok := fh.NewID(kind, kh.Kind(), kh.Bytes())
	return ok
}

// fsType returns the magic number of a file system, which has another Go type on
// each architecture.
func fsType(st *unix.Statfs_t) uint32 { return uint32(st.Type) }

// isVolatile reports whether a file system is in memory alone: its fsync(2) does nothing.
func isVolatile(fs *unix.Statfs_t) bool {
	return fsType(fs) == unix.TMPFS_MAGIC || fsType(fs) == unix.RAMFS_MAGIC
}

// errHandleSize means that the kernel's handle of an object does not fit, although that of
// the export's root does.
var errHandleSize = errors.New("nfs: the file system's handle is too long")

// identify returns the ID of an open object. An object on another mount is not part of the
// export: errAccess.
func (s *subtree) identify(fd int, st *unix.Stat_t) (fh.ID, error) {
	var kh posix.Handle
	var mount int
	var err error
	switch s.idKind {
	case fh.Inode:
		return s.identifyInode(fd, st)
	case fh.Name:
		if _, err = posix.HandleOf(fd, &kh, posix.NameOnly); err == nil {
			mount, err = posix.Mount(fd)
		}
	default:
		mount, err = posix.HandleOf(fd, &kh, 0)
	}
	if err != nil {
		return fh.ID{}, err
	}
	return s.ownID(&kh, mount)
}

// ownID returns the ID of the object with the kernel's handle kh on a mount.
func (s *subtree) ownID(kh *posix.Handle, mount int) (fh.ID, error) {
	if mount != s.mount && s.mount != 0 {
		return fh.ID{}, errAccess
	}
	id, ok := fh.NewID(s.idKind, kh.Kind(), kh.Bytes())
	if !ok {
		return id, errHandleSize
	}
	return id, nil
}

// identifyName returns the ID of the object with a name in a directory, with the thread's
// current identity and without opening it. The error is errUnnamed if the file system does
// not support that.
func (s *subtree) identifyName(dir *object, name *posix.Name) (fh.ID, error) {
	if s.idKind != fh.Kernel || s.mount == 0 {
		return fh.ID{}, errUnnamed
	}
	var kh posix.Handle
	mount, err := posix.HandleAt(dir.path, name, &kh)
	if isOneOf(err, unix.EOPNOTSUPP, unix.EOVERFLOW, unix.EINVAL) {
		return fh.ID{}, errUnnamed
	}
	if err != nil {
		return fh.ID{}, err
	}
	return s.ownID(&kh, mount)
}

// errUnnamed means that an object's ID cannot be found by its name.
var errUnnamed = errors.New("nfs: the file system does not identify names")

// identifyInode makes an ID of the inode number and the time of birth, which distinguishes
// a new file from an old one with the same number.
func (s *subtree) identifyInode(fd int, st *unix.Stat_t) (fh.ID, error) {
	var sx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME|unix.STATX_MNT_ID, &sx); err != nil {
		return fh.ID{}, err
	}
	if sx.Mask&unix.STATX_MNT_ID != 0 && s.mount != 0 && int(sx.Mnt_id) != s.mount {
		return fh.ID{}, errAccess
	}
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], st.Ino)
	if sx.Mask&unix.STATX_BTIME != 0 {
		binary.BigEndian.PutUint64(b[8:], uint64(sx.Btime.Sec*1e9+int64(sx.Btime.Nsec)))
	}
	if s.top != nil && st.Dev != s.top.dev {
		binary.BigEndian.PutUint64(b[16:], st.Dev)
	}
	id, _ := fh.NewID(fh.Inode, 0, b[:])
	return id, nil
}
