package nfs

import (
	"errors"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// remove is REMOVE (RFC 1813 §3.3.12).
func (r *request) remove() error { return r.removing(0) }

// rmdir is RMDIR (RFC 1813 §3.3.13).
func (r *request) rmdir() error { return r.removing(unix.AT_REMOVEDIR) }

func (r *request) removing(flags int) error {
	handle, name := r.handle(), r.opaque()
	if err := r.decoded(); err != nil {
		return err
	}
	dir, err := r.directory(handle)
	c := r.change(dir)
	if err == nil {
		err = dir.orStale(r.unlink(dir, name, flags))
	}
	if err == nil {
		err = r.syncMetadata(dir)
	}
	r.begin(err)
	r.appendWCC(&c)
	dir.release()
	return nil
}

func (r *request) unlink(dir *object, name []byte, flags int) error {
	if flags != 0 && string(name) == ".." {
		return errExist
	}
	if err := checkOld(name); err != nil {
		return err
	}
	if err := r.writable(); err != nil {
		return err
	}
	r.name.Set(name)
	victim := r.srv.entry(dir, &r.name)
	defer victim.close()
	err := r.srv.asCaller(&r.cred, func() error { return posix.Unlink(dir.path, &r.name, flags) })
	if err == nil {
		r.srv.unlinked(dir, &victim, &r.name)
	}
	return err
}

// entry is the object with a name.
type entry struct {
	id    fh.ID
	known bool // the name exists
	fd    int  // O_PATH, or -1; only if objects are found by name
}

// entry looks up a name with the server's own identity. The caller must close the entry.
func (s *subtree) entry(dir *object, name *posix.Name) entry {
	e := entry{fd: -1}
	if s.opensIDs() {
		id, err := s.identifyName(dir, name)
		if !errors.Is(err, errUnnamed) {
			return entry{id, err == nil, -1}
		}
	}
	fd, err := s.openChild(dir, name)
	if err != nil {
		return e
	}
	var st unix.Stat_t
	if e.id, err = s.statID(fd, &st); err != nil {
		unix.Close(fd)
		return e
	}
	e.known, e.fd = true, fd
	return e
}

func (e *entry) close() {
	if e.fd >= 0 {
		unix.Close(e.fd)
	}
}

// gone reports whether the object has no name left. Another call may have linked it meanwhile.
func (e *entry) gone() bool {
	var st unix.Stat_t
	return e.fd >= 0 && unix.Fstat(e.fd, &st) == nil && (st.Nlink == 0 || st.Mode&unix.S_IFMT == unix.S_IFDIR)
}

// unlinked records that an object lost a name. If it was the last, the object is closed, so
// that its space is freed.
func (s *subtree) unlinked(dir *object, e *entry, name *posix.Name) {
	if e.known {
		s.locate.unlearn(dir, e.id, name, e.gone())
		s.cache.forgetGone(&e.id)
	}
}

// rename is RENAME (RFC 1813 §3.3.14).
func (r *request) rename() error {
	fromHandle, fromName := r.handle(), r.opaque()
	toHandle, toName := r.handle(), r.opaque()
	if err := r.decoded(); err != nil {
		return err
	}
	from, err := r.directory(fromHandle)
	var to *object
	if err == nil {
		to, err = r.directoryOr(from, toHandle)
	}
	c := r.change(from)
	d := change{}
	if to != nil && to != from {
		d = r.change(to)
	}
	if err == nil {
		err = to.orStale(from.orStale(r.move(from, to, fromName, toName)))
	}
	r.begin(err)
	if to == from {
		r.appendSameWCC(&c)
	} else {
		r.appendWCC(&c)
		r.appendWCC(&d)
	}
	from.release()
	to.release()
	return nil
}

// appendSameWCC appends the wcc_data of a modification twice.
func (r *request) appendSameWCC(c *change) {
	start := len(r.reply.Stream)
	r.appendWCC(c)
	r.reply.Stream = append(r.reply.Stream, r.reply.Stream[start:]...)
}

// move renames within or between directories of the export.
func (r *request) move(from, to *object, fromName, toName []byte) error {
	if err := checkOld(fromName); err != nil {
		return err
	}
	if err := checkOld(toName); err != nil {
		return err
	}
	if err := r.writable(); err != nil {
		return err
	}
	r.name.Set(fromName)
	r.other.Set(toName)
	moved := entry{fd: -1}
	if !r.srv.opensIDs() {
		moved = r.srv.entry(from, &r.name)
		defer moved.close()
	}
	victim := r.srv.entry(to, &r.other)
	defer victim.close()
	if err := r.srv.asCaller(&r.cred, func() error {
		return posix.Rename(from.path, &r.name, to.path, &r.other)
	}); err != nil {
		return err
	}
	if moved.id != victim.id { // two names of one object stay unchanged
		r.srv.unlinked(to, &victim, &r.other)
		if moved.known {
			r.srv.locate.unlearn(from, moved.id, &r.name, false)
			r.srv.locate.learn(to, moved.id, &r.other)
		}
	}
	if err := r.syncMetadata(to); err != nil || to == from {
		return err
	}
	return r.syncMetadata(from)
}

// link is LINK (RFC 1813 §3.3.15).
func (r *request) link() error {
	handle := r.handle()
	dirHandle, name := r.handle(), r.opaque()
	if err := r.decoded(); err != nil {
		return err
	}
	o, err := r.object(handle)
	var dir *object
	if err == nil {
		dir, err = r.otherDirectory(dirHandle)
	}
	c := r.change(dir)
	if err == nil {
		err = dir.orStale(r.addName(o, dir, name))
	}
	r.begin(err)
	r.appendAttrOf(o)
	r.appendWCC(&c)
	o.release()
	dir.release()
	return nil
}

// addName gives an object another name.
func (r *request) addName(o, dir *object, name []byte) error {
	if err := checkNew(name); err != nil {
		return err
	}
	if err := r.writable(); err != nil {
		return err
	}
	if o.isDir() {
		return statusError(nfsv3.NFS3ERR_ISDIR)
	}
	if err := o.stat(&r.st); err != nil {
		return err
	}
	r.name.Set(name)
	if err := r.srv.asCaller(&r.cred, func() error {
		return unix.Linkat(unix.AT_FDCWD, procPath(o.path), dir.path, r.name.String(), unix.AT_SYMLINK_FOLLOW)
	}); err != nil {
		return err
	}
	r.srv.locate.learn(dir, o.id, &r.name)
	return r.syncMetadata(dir)
}
