package nfs

import (
	"bytes"
	"errors"
	"math"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// making is the common part of CREATE, MKDIR, SYMLINK and MKNOD. make creates r.name in the
// directory, as the caller, and returns the new object and its attributes (r.st).
func (r *request) making(handle, name []byte, make func(dir *object) (*object, error)) error {
	dir, err := r.directory(handle)
	c := r.change(dir)
	var o *object
	if err == nil {
		err = checkNew(name)
	}
	if err == nil {
		err = r.writable()
	}
	if err == nil {
		err = r.srv.cache.room() // checked before, because a created object stays
	}
	if err == nil {
		r.name.Set(name)
		o, err = make(dir)
		err = dir.orStale(err)
	}
	if err == nil {
		err = r.syncMetadata(dir)
	}
	if r.begin(err) {
		r.appendHandle(&o.handle)
		r.appendPostOp(&r.st)
	}
	r.appendWCC(&c)
	o.release()
	dir.release()
	return nil
}

// createHow is a createhow3 (RFC 1813 §3.3.8).
type createHow struct {
	mode     nfsv3.Createmode3
	attr     sattr
	verifier uint64 // EXCLUSIVE
}

// create is CREATE (RFC 1813 §3.3.8).
func (r *request) create() error {
	handle, name := r.handle(), r.opaque()
	how := createHow{mode: nfsv3.Createmode3(r.args.Uint32())}
	switch how.mode {
	case nfsv3.UNCHECKED, nfsv3.GUARDED:
		how.attr = r.sattr()
	case nfsv3.EXCLUSIVE:
		how.verifier = r.args.Uint64()
	default:
		r.args.Fail(errGarbage)
	}
	if err := r.decoded(); err != nil {
		return err
	}
	return r.making(handle, name, func(dir *object) (*object, error) { return r.createOrFind(dir, &how) })
}

// createOrFind makes a file or, unless it is GUARDED, takes the existing one. That may be removed
// at this moment: then it tries again.
func (r *request) createOrFind(dir *object, how *createHow) (o *object, err error) {
	for range createTries {
		o, err = r.createNew(dir, how)
		if how.mode == nfsv3.GUARDED || !errors.Is(err, unix.EEXIST) {
			return o, err
		}
		o, err = r.createExisting(dir, how)
		if !isOneOf(err, unix.ENOENT, errStale) {
			return o, err
		}
	}
	return nil, errJukebox
}

// createTries is how often somebody may remove the object meanwhile. A try takes some 20 us. A program
// that makes and removes the file in a loop can be quicker dozens of times in a row.
const createTries = 1000

// createNew makes a file that must not exist yet.
func (r *request) createNew(dir *object, how *createHow) (*object, error) {
	mode := uint32(0o600)
	switch {
	case how.mode == nfsv3.EXCLUSIVE:
		mode = 0 // a SETATTR sets the attributes later
	case how.attr.setMode:
		mode = how.attr.mode
	}
	fd := -1
	if err := r.srv.asCaller(&r.cred, func() (err error) {
		fd, err = posix.OpenAt(dir.path, &r.name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NONBLOCK, mode)
		if err == nil && how.mode == nfsv3.EXCLUSIVE {
			atime, mtime := verifierTimes(how.verifier)
			if err = posix.SetTimes(fd, atime, mtime); err != nil {
				unix.Close(fd)
			}
		}
		return err
	}); err != nil {
		return nil, err
	}
	o, err := r.srv.child(dir, fd, &r.name, &r.st, true)
	if err != nil {
		return nil, err
	}
	if how.mode != nfsv3.EXCLUSIVE {
		return r.finish(dir, o, &how.attr)
	}
	if err := r.syncMetadata(o); err != nil { // with the verifier
		o.release()
		return nil, err
	}
	return o, nil
}

// finish sets the attributes of a new object in dir that its creation has not set. r.st holds its
// current ones. It sets the owner only for root, as Linux's own server does: clients send
// the owner that the kernel has chosen already, and would be refused. After an error the
// object stays, as after a crash.
func (r *request) finish(dir, o *object, a *sattr) (*object, error) {
	if !r.srv.actsAsRoot(&r.cred) {
		a.setUID, a.setGID = false, false
	}
	if a.setSize && (a.size == 0 || o.typ != unix.S_IFREG) {
		a.setSize = false
	}
	r.completeMode(dir, o, a)
	if a.isEmpty() {
		return o, nil
	}
	err := r.apply(o, a, &r.st)
	if err == nil {
		err = r.syncMetadata(o)
	}
	if err == nil {
		err = unix.Fstat(o.path, &r.st) // also if others have removed it: it was made
	}
	if err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// completeMode leaves the mode of a new object as the kernel made it, except for set-ID and
// sticky bits, which not all calls accept, and for the bits that this process's umask has
// removed, because clients have their own umask. If the directory has a default access
// control list, the umask did not apply. Set-ID bits of a file are set again after its size and
// owner, which clear them.
func (r *request) completeMode(dir, o *object, a *sattr) {
	if !a.setMode || o.typ == unix.S_IFLNK {
		a.setMode = false
		return
	}
	made := r.st.Mode & 0o7777
	mode := made | a.mode&0o7000
	if lost := a.mode & r.srv.umask &^ made; lost != 0 && !hasDefaultACL(dir) {
		mode |= lost
	}
	a.mode, a.setMode = mode, mode != made || (mode&0o6000 != 0 && !o.isDir())
}

// hasDefaultACL reports whether a directory has an access control list for new objects.
func hasDefaultACL(dir *object) bool {
	n, err := unix.Getxattr(procPath(dir.path), "system.posix_acl_default", nil)
	return err == nil && n > 0
}

// createExisting is CREATE of an existing name. UNCHECKED accepts a regular file and
// truncates it if a size is given. It sets nothing else. For EXCLUSIVE, the file may come
// from the same call sent earlier.
func (r *request) createExisting(dir *object, how *createHow) (*object, error) {
	o, err := r.findChild(dir)
	if err != nil {
		return nil, err
	}
	switch {
	case o.typ != unix.S_IFREG:
		err = errExist
	case how.mode == nfsv3.EXCLUSIVE:
		atime, mtime := verifierTimes(how.verifier)
		if r.st.Size != 0 || r.st.Atim != atime || r.st.Mtim != mtime {
			err = errExist
		}
	case how.attr.setSize:
		err = r.truncateExisting(o, how.attr.size)
	}
	if err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// truncateExisting sets the size of a file with the attributes r.st, and updates them.
func (r *request) truncateExisting(o *object, size uint64) error {
	token, _ := o.mods.begin()
	defer o.mods.end(token)
	err := r.truncate(o, size, &r.st)
	if err == nil {
		err = r.syncMetadata(o)
	}
	if err == nil {
		err = o.stat(&r.st)
	}
	return err
}

// verifierTimes stores the verifier of an EXCLUSIVE create in the file's times, where it
// survives restarts: half in each, without the sign bits, which not all file systems keep.
func verifierTimes(v uint64) (atime, mtime unix.Timespec) {
	const most = 1<<31 - 1
	return unix.Timespec{Sec: int64(v & most)}, unix.Timespec{Sec: int64(v >> 32 & most)}
}

// mkdir is MKDIR (RFC 1813 §3.3.9).
func (r *request) mkdir() error {
	handle, name := r.handle(), r.opaque()
	attr := r.sattr()
	if err := r.decoded(); err != nil {
		return err
	}
	return r.making(handle, name, func(dir *object) (*object, error) {
		mode := uint32(0o700)
		if attr.setMode {
			mode = attr.mode
		}
		return r.makeAndFinish(dir, &attr, func() error {
			return posix.Mkdir(dir.path, &r.name, mode)
		})
	})
}

// makeAndFinish makes an object as the caller, opens it and sets its attributes. Somebody may remove
// the object before it is open: then makeAndFinish makes another.
func (r *request) makeAndFinish(dir *object, attr *sattr, make func() error) (*object, error) {
	fd := -1
	if err := r.srv.asCaller(&r.cred, func() (err error) {
		for range createTries {
			if err = make(); err != nil {
				return err
			}
			if fd, err = r.srv.openChild(dir, &r.name); !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		return errJukebox
	}); err != nil {
		return nil, err
	}
	o, err := r.srv.child(dir, fd, &r.name, &r.st, false)
	if err != nil {
		return nil, err
	}
	return r.finish(dir, o, attr)
}

// symlink is SYMLINK (RFC 1813 §3.3.10).
func (r *request) symlink() error {
	handle, name := r.handle(), r.opaque()
	attr := r.sattr()
	target := r.opaque()
	if err := r.decoded(); err != nil {
		return err
	}
	return r.making(handle, name, func(dir *object) (*object, error) {
		if err := checkTarget(target); err != nil {
			return nil, err
		}
		return r.makeAndFinish(dir, &attr, func() error {
			return unix.Symlinkat(string(target), dir.path, r.name.String())
		})
	})
}

// checkTarget checks the path of a symbolic link. Its destination matters only to clients:
// the server never follows a link.
func checkTarget(target []byte) error {
	if len(target) >= unix.PathMax {
		return errNameTooLong
	}
	if bytes.IndexByte(target, 0) >= 0 {
		return errInval
	}
	if len(target) == 0 {
		return errNoEnt
	}
	return nil
}

// mknod is MKNOD (RFC 1813 §3.3.11).
func (r *request) mknod() error {
	handle, name := r.handle(), r.opaque()
	typ := nfsv3.Ftype3(r.args.Uint32())
	var attr sattr
	var device uint64
	mode := uint32(0)
	switch typ {
	case nfsv3.NF3CHR, nfsv3.NF3BLK:
		mode = unix.S_IFCHR
		if typ == nfsv3.NF3BLK {
			mode = unix.S_IFBLK
		}
		attr = r.sattr()
		major, minor := r.args.Uint32(), r.args.Uint32()
		device = unix.Mkdev(major, minor)
	case nfsv3.NF3SOCK:
		mode, attr = unix.S_IFSOCK, r.sattr()
	case nfsv3.NF3FIFO:
		mode, attr = unix.S_IFIFO, r.sattr()
	case nfsv3.NF3REG, nfsv3.NF3DIR, nfsv3.NF3LNK:
	default:
		r.args.Fail(errGarbage)
	}
	if err := r.decoded(); err != nil {
		return err
	}
	return r.making(handle, name, func(dir *object) (*object, error) {
		if mode == 0 {
			return nil, errBadType
		}
		if device > math.MaxUint32 { // the kernel drops these bits, which makes another device
			return nil, errInval
		}
		perm := uint32(0o600)
		if attr.setMode {
			perm = attr.mode
		}
		return r.makeAndFinish(dir, &attr, func() error {
			return unix.Mknodat(dir.path, r.name.String(), mode|perm, int(device))
		})
	})
}
