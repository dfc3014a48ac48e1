package nfs

import (
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// sattr is a sattr3: attributes to be set (RFC 1813 §2.6).
type sattr struct {
	setMode, setUID, setGID, setSize bool
	mode, uid, gid                   uint32
	size                             uint64
	// Times as for utimensat(2), with UTIME_NOW and UTIME_OMIT.
	atime, mtime unix.Timespec
}

// sattr decodes a sattr3.
func (r *request) sattr() (a sattr) {
	d := &r.args
	if a.setMode = d.Bool(); a.setMode {
		a.mode = d.Uint32() & 0o7777
	}
	if a.setUID = d.Bool(); a.setUID {
		a.uid = d.Uint32()
	}
	if a.setGID = d.Bool(); a.setGID {
		a.gid = d.Uint32()
	}
	if a.setSize = d.Bool(); a.setSize {
		a.size = d.Uint64()
	}
	a.atime, a.mtime = r.setTime(), r.setTime()
	return a
}

// setTime decodes a set_atime or set_mtime.
func (r *request) setTime() unix.Timespec {
	switch nfsv3.TimeHow(r.args.Uint32()) {
	case nfsv3.DONT_CHANGE:
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	case nfsv3.SET_TO_SERVER_TIME:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case nfsv3.SET_TO_CLIENT_TIME:
		sec, nsec := r.args.Uint32(), r.args.Uint32()
		if nsec >= 1e9 {
			r.args.Fail(errGarbage)
		}
		return unix.Timespec{Sec: int64(sec), Nsec: int64(nsec)}
	}
	r.args.Fail(errGarbage)
	return unix.Timespec{}
}

// isEmpty reports whether there is nothing to set.
func (a *sattr) isEmpty() bool {
	return !a.setSize && !a.setUID && !a.setGID && !a.setMode && !a.setsTimes()
}

func (a *sattr) setsTimes() bool {
	return a.atime.Nsec != unix.UTIME_OMIT || a.mtime.Nsec != unix.UTIME_OMIT
}

// touchesOne reports whether one of the times is set to now, and the other stays.
func (a *sattr) touchesOne() bool {
	return (a.atime.Nsec == unix.UTIME_NOW && a.mtime.Nsec == unix.UTIME_OMIT) ||
		(a.atime.Nsec == unix.UTIME_OMIT && a.mtime.Nsec == unix.UTIME_NOW)
}

// apply sets attributes of o, which has the attributes st, as the caller. Size comes first,
// because it needs other rights. Then owner, because that clears set-ID bits, which the
// mode may set. Then mode. Then times, because all others change them.
func (r *request) apply(o *object, a *sattr, st *unix.Stat_t) error {
	if a.setSize {
		if err := r.truncate(o, a.size, st); err != nil {
			return err
		}
		if a.touchesOne() && a.mtime.Nsec == unix.UTIME_NOW {
			a.mtime.Nsec = unix.UTIME_OMIT // truncating has done it
		}
	}
	if !a.setUID && !a.setGID && !a.setMode && !a.setsTimes() {
		return nil
	}
	// A user who may write to an object may set its times to now. The kernel allows such a user
	// to set both, but not one. Linux clients set only mtime when they truncate a file.
	touches := a.touchesOne() && r.srv.mustAsk(&r.cred, st)
	if err := r.srv.asCaller(&r.cred, func() error {
		if a.setUID || a.setGID {
			if err := chown(o.path, a); err != nil {
				return err
			}
		}
		if a.setMode {
			if err := chmod(o, a.mode); err != nil {
				return err
			}
		}
		if touches {
			return r.srv.ask(o, &r.cred, mayWrite)
		}
		if a.setsTimes() {
			return setTimes(o, a.atime, a.mtime)
		}
		return nil
	}); err != nil || !touches {
		return err
	}
	return setTimes(o, a.atime, a.mtime)
}

// truncate sets the size of a regular file.
func (r *request) truncate(o *object, size uint64, st *unix.Stat_t) error {
	switch {
	case o.isDir():
		return unix.EISDIR
	case o.typ != unix.S_IFREG:
		return errInval
	case size > r.srv.maxFile:
		return errFBig
	}
	return r.srv.asWriter(o, &r.cred, st, func(fd int) error {
		defer o.dirty.Store(true) // a COMMIT at this moment may come before it
		return unix.Ftruncate(fd, int64(size))
	})
}

// chown changes user, group or both. IDs that are not to be set stay unchanged.
func chown(fd int, a *sattr) error {
	uid, gid := -1, -1
	if a.setUID {
		uid = int(a.uid)
	}
	if a.setGID {
		gid = int(a.gid)
	}
	if (a.setUID && a.uid == invalidID) || (a.setGID && a.gid == invalidID) {
		return errInval
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

// chmod changes the mode. Symbolic links have none, so it returns an error for them, as
// fchmodat(2) does. Linux's own server ignores the mode.
func chmod(o *object, mode uint32) error {
	if o.typ == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	o.open.Lock() // an opening may have changed the mode for a moment (reopen)
	defer o.open.Unlock()
	if fd := o.opened(); fd >= 0 {
		return unix.Fchmod(fd, mode)
	}
	return unix.Chmod(procPath(o.path), mode)
}

// setTimes sets times. With only an O_PATH descriptor it goes through /proc.
func setTimes(o *object, atime, mtime unix.Timespec) error {
	if fd := o.opened(); fd >= 0 {
		return posix.SetTimes(fd, atime, mtime)
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(o.path), []unix.Timespec{atime, mtime}, 0)
}
