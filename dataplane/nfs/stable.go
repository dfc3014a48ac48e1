package nfs

import (
	"errors"
	"log/slog"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// lost records that the kernel may have dropped written data. call got the error; it is nil if
// no client waits. The kernel reports such an error once and then treats the pages as clean, so
// that another fsync would succeed.
func (s *subtree) lost(o *object, call *oncrpc.Call, err error) {
	s.verifier.Store(rand.Uint64())
	name := "rdmad"
	if call != nil {
		name = call.Peer.String()
	}
	s.log.Error("writing to stable storage failed: clients are asked to write again",
		slog.String("peer", name), slog.Uint64("fileid", o.ino), slog.Any("error", err))
}

// lostBy returns err, the error at a position of a WRITE that both writes and syncs with fd, if others
// must learn of it: it may be that of the sync, and then concern other data, too.
func (s *subtree) lostBy(o *object, call *oncrpc.Call, fd int, at uint64, err error) error {
	if err == nil || errors.Is(err, posix.ErrNothing) || (errors.Is(err, unix.EFBIG) && isBeyond(fd, at)) {
		return nil
	}
	s.noteSpace(err)
	s.lost(o, call, err)
	return err
}

// refused takes note of the error of a WRITE that syncs nothing, if it was to be stable or the kernel's NFS
// client has reported it. That client returns ENOSPC, EDQUOT and EFBIG of earlier data to the next WRITE
// of the file, and the next sync then succeeds.
func (s *subtree) refused(o *object, call *oncrpc.Call, stable bool, err error) {
	if err != nil && s.onNFS {
		o.refusals.Add(1)
		s.lost(o, call, err)
	} else if stable {
		s.noteSpace(err)
	}
}

// isBeyond reports whether the file system can't have a byte at this position of a file. Then a WRITE
// ends before anything is written. Otherwise EFBIG may come from a sync, as on XFS, which has a limit of
// extents in a file.
func isBeyond(fd int, at uint64) bool {
	_, err := unix.Seek(fd, int64(at)+1, unix.SEEK_SET)
	return errors.Is(err, unix.EINVAL)
}

// fullTicks is for how long stable WRITEs are carried out in two steps after one that found no
// space, in ticks of the epoch. Then an error shows which step it comes from, and one of the first
// loses nothing. Otherwise a client that goes on writing to a full disk, or over its quota, would
// have all others write again and again, and their COMMITs would never succeed.
const fullTicks = 8 * idleTicks

// noteSpace records the time if err means that there is no space, in the file system or the file.
func (s *subtree) noteSpace(err error) {
	if isOneOf(err, unix.ENOSPC, unix.EDQUOT, unix.EFBIG) {
		s.full.Store(uint64(s.epoch.Load()) + 1)
	}
}

// lacksSpace reports whether a stable WRITE found no space in the last fullTicks.
func (s *subtree) lacksSpace() bool {
	at := s.full.Load()
	return at != 0 && s.epoch.Load()-uint32(at-1) < fullTicks
}

// bring brings o to stable storage. An error renews the write verifier.
func (o *object) bring(call *oncrpc.Call, fd int, full bool) (err error) {
	if full {
		err = unix.Fsync(fd)
	} else {
		err = unix.Fdatasync(fd)
	}
	if err != nil && !o.isDir() {
		o.server.lost(o, call, err)
	}
	return err
}

// sync is the object's, for the call of r.
func (r *request) sync(o *object, fd int, full bool) (err error) {
	r.outside(func() { err = o.sync(r.call, fd, full) })
	return err
}

// commitFD returns a descriptor by which the data of o can be brought to stable storage.
func (o *object) commitFD() (int, error) {
	fd, err := o.writer()
	if isOneOf(err, unix.EACCES, unix.EROFS, unix.EPERM, unix.ETXTBSY) {
		return o.reader() // a written file is flushed through this as well
	}
	return fd, err
}

// flushAndRelease releases the cache's reference. It first writes data to stable storage:
// the kernel reports a write-back error only to those who have the file open, and no one
// else might get it.
func (o *object) flushAndRelease() {
	if fd := int(o.write.Load()); fd >= 0 && o.dirty.Load() && !o.server.volatile {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Nlink > 0 {
			o.dirty.Store(false)
			_ = o.sync(nil, fd, false) // an error has renewed the verifier
		}
	}
	o.release()
}

// syncMetadata makes a change of names in a directory or of attributes stable, unless
// configured otherwise. It does nothing for a symbolic link, FIFO, socket or device: the kernel
// has only syncfs for these. For a file, the kernel writes its data as well, and reports here
// what went wrong with it.
func (r *request) syncMetadata(o *object) error {
	s := r.srv
	if s.asyncMetadata || s.volatile || (!o.isDir() && o.typ != unix.S_IFREG) {
		return nil
	}
	fd := int(o.write.Load()) // a COMMIT that waits for this needs the errors of the data
	if fd < 0 {
		var err error
		fd, err = o.reader()
		// Not root, and no right to read; or no descriptor is left. The change is made already.
		if isOneOf(err, unix.EACCES, errJukebox, unix.EMFILE, unix.ENFILE) {
			return unix.Syncfs(int(s.dir.Fd())) // all of the file system
		}
		if err != nil {
			return err
		}
	}
	return r.sync(o, fd, true)
}
