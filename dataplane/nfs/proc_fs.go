package nfs

import (
	"errors"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// ofObject is the common part of FSSTAT, FSINFO and PATHCONF: results about the file system
// of an object, appended by add.
func (r *request) ofObject(add func(dst []byte, fs *unix.Statfs_t) []byte) error {
	handle := r.handle()
	if err := r.decoded(); err != nil {
		return err
	}
	var fs unix.Statfs_t
	o, err := r.object(handle)
	if err == nil {
		err = o.stat(&r.st)
	}
	if err == nil {
		err = unix.Fstatfs(o.path, &fs)
	}
	ok := r.begin(err)
	r.appendAttrOf(o)
	if ok {
		r.reply.Stream = add(r.reply.Stream, &fs)
	}
	o.release()
	return nil
}

// fsstat is FSSTAT (RFC 1813 §3.3.18).
func (r *request) fsstat() error {
	return r.ofObject(func(dst []byte, fs *unix.Statfs_t) []byte {
		size := uint64(fs.Frsize)
		if size == 0 {
			size = uint64(fs.Bsize)
		}
		dst = xdr.AppendUint64(dst, fs.Blocks*size)
		dst = xdr.AppendUint64(dst, fs.Bfree*size)
		dst = xdr.AppendUint64(dst, fs.Bavail*size)
		dst = xdr.AppendUint64(dst, fs.Files)
		dst = xdr.AppendUint64(dst, fs.Ffree)
		dst = xdr.AppendUint64(dst, fs.Ffree)
		return xdr.AppendUint32(dst, 0) // invarsec: may change at any time
	})
}

// The values that FSINFO returns, in bytes.
const (
	ioMultiple = 4096
	// Of properties (RFC 1813 §3.3.19): hard links, symbolic links, the same
	// PATHCONF everywhere, times can be set.
	fsProperties = nfsv3.FSF3_LINK | nfsv3.FSF3_SYMLINK | nfsv3.FSF3_HOMOGENEOUS | nfsv3.FSF3_CANSETTIME
)

// largestFile returns the size of the largest file that a file system can have, in bytes, or most if
// that is less or the size is unknown. dir is a directory on it. Linux clients refuse larger files
// at once if they know the size, otherwise only when they write back what a program has written.
// The kernel does not report the size, but accepts no position in a file that is beyond it. The
// file for that has no name, so that nothing is left of it. On overlayfs, the directory is copied to the
// upper layer, as by any new file in it.
func largestFile(dir int, most uint64) uint64 {
	fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil { // the file system is read-only, or has no such files
		return most
	}
	defer unix.Close(fd)
	return largestPosition(fd, most)
}

// largestPosition returns the largest position in a file, or most if that is less or unknown.
func largestPosition(fd int, most uint64) uint64 {
	low, high := uint64(0), most // the position low is possible
	for low < high {
		at := high - (high-low)/2
		switch _, err := unix.Seek(fd, int64(at), unix.SEEK_SET); {
		case err == nil:
			low = at
		case errors.Is(err, unix.EINVAL):
			high = at - 1
		default: // as with FUSE, whose files may have no positions
			return most
		}
	}
	return low
}

// fsinfo is FSINFO (RFC 1813 §3.3.19).
func (r *request) fsinfo() error {
	return r.ofObject(func(dst []byte, _ *unix.Statfs_t) []byte {
		for range 2 { // read, write
			dst = xdr.AppendUint32(dst, MaxIO)
			dst = xdr.AppendUint32(dst, MaxIO)
			dst = xdr.AppendUint32(dst, ioMultiple)
		}
		dst = xdr.AppendUint32(dst, maxDirReply)
		dst = xdr.AppendUint64(dst, r.srv.maxFile)
		dst = xdr.AppendUint32(dst, 0) // time_delta: seconds
		dst = xdr.AppendUint32(dst, 1) // and nanoseconds
		return xdr.AppendUint32(dst, fsProperties)
	})
}

// defaultLinks is the largest number of names of a file if the file system is unknown.
const defaultLinks = 255

// maxLinks is the largest number of names of a file, by file system.
var maxLinks = map[uint32]uint32{
	unix.EXT4_SUPER_MAGIC:  65000,
	unix.XFS_SUPER_MAGIC:   1<<31 - 1,
	unix.BTRFS_SUPER_MAGIC: 65535,
	unix.TMPFS_MAGIC:       1<<31 - 1,
}

// pathconf is PATHCONF (RFC 1813 §3.3.20).
func (r *request) pathconf() error {
	return r.ofObject(func(dst []byte, fs *unix.Statfs_t) []byte {
		links, ok := maxLinks[fsType(fs)]
		if !ok {
			links = defaultLinks
		}
		dst = xdr.AppendUint32(dst, links)
		dst = xdr.AppendUint32(dst, min(maxName, uint32(fs.Namelen)))
		dst = xdr.AppendBool(dst, true)  // no_trunc
		dst = xdr.AppendBool(dst, true)  // chown_restricted
		dst = xdr.AppendBool(dst, false) // case_insensitive
		return xdr.AppendBool(dst, true) // case_preserving
	})
}
