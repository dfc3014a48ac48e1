package nfs

import (
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// lookup is LOOKUP (RFC 1813 §3.3.3).
func (r *request) lookup() error {
	handle, name := r.handle(), r.opaque()
	if err := r.decoded(); err != nil {
		return err
	}
	dir, err := r.directory(handle)
	var o *object
	if err == nil {
		o, err = r.find(dir, name)
		err = dir.orStale(err)
	}
	if r.begin(err) {
		r.reply.Stream = xdr.AppendOpaque(r.reply.Stream, o.handle.Bytes())
		r.appendPostOp(&r.st)
		o.release()
	}
	r.appendAttrOf(dir)
	dir.release()
	return nil
}

// find returns the object with a name, as the caller, and its attributes (r.st).
func (r *request) find(dir *object, name []byte) (*object, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	switch {
	case len(name) == 1 && name[0] == '.', len(name) == 2 && isDot(name) && dir == r.srv.top:
		err := r.srv.permitted(dir, &r.cred, mayExec)
		if err == nil {
			err = dir.stat(&r.st)
		}
		if err != nil {
			return nil, err
		}
		dir.refs.Add(1)
		return dir, nil
	case isDot(name):
		return r.parent(dir)
	}
	r.name.Set(name)
	return r.findChild(dir)
}

// findChild is find for r.name, which is neither "." nor "..". It asks the kernel for the
// ID, and opens the object if it is not open yet.
func (r *request) findChild(dir *object) (*object, error) {
	var id fh.ID
	err := r.srv.asCaller(&r.cred, func() (err error) {
		id, err = r.srv.identifyName(dir, &r.name)
		return err
	})
	if err == nil {
		if o, ok := r.identified(dir, &id); ok {
			return o, nil
		}
	} else if err != errUnnamed { //nolint:errorlint // identifyName wraps nothing
		return nil, err
	}
	return r.openNamed(dir)
}

// openNamed opens r.name as the caller.
func (r *request) openNamed(dir *object) (*object, error) {
	if err := r.srv.cache.room(); err != nil {
		return nil, err
	}
	fd := -1
	if err := r.srv.asCaller(&r.cred, func() (err error) {
		fd, err = r.srv.openChild(dir, &r.name)
		return err
	}); err != nil {
		return nil, err
	}
	return r.srv.child(dir, fd, &r.name, &r.st, false)
}

// parent returns the parent of a directory that is not the export's root. The parent must
// still be inside the export, because somebody may be moving the directory out.
func (r *request) parent(dir *object) (*object, error) {
	if err := r.srv.permitted(dir, &r.cred, mayExec); err != nil {
		return nil, err
	}
	if err := r.srv.cache.room(); err != nil {
		return nil, err
	}
	return r.srv.parent(dir, &r.st)
}

// parent returns the parent of a directory that is not the export's root, and sets st to its
// attributes.
func (s *subtree) parent(dir *object, st *unix.Stat_t) (*object, error) {
	fd, err := unix.Openat(dir.path, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return s.ancestor(fd, st)
}

// ancestor takes ownership of fd, a directory found by going up, and returns its object.
func (s *subtree) ancestor(fd int, st *unix.Stat_t) (*object, error) {
	ok, err := below(fd, &s.place)
	if err == nil && !ok {
		err = errStale
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return s.objectOf(fd, st, false)
}

// readlink is READLINK (RFC 1813 §3.3.5).
func (r *request) readlink() error {
	handle := r.handle()
	if err := r.decoded(); err != nil {
		return err
	}
	o, err := r.object(handle)
	var target []byte
	if err == nil {
		target, err = readTarget(o)
	}
	ok := r.begin(err)
	r.appendAttrOf(o)
	o.release()
	if !ok {
		return nil
	}
	return r.appendTarget(target)
}

// appendTarget appends a link's target, which is DDP-eligible (RFC 8267 §4): a client may
// have offered memory for it and no room in the message.
func (r *request) appendTarget(target []byte) error {
	buf, err := r.alloc(len(target))
	if err != nil {
		return err
	}
	n := copy(buf.Bytes(), target)
	r.reply.Stream = xdr.AppendUint32(r.reply.Stream, uint32(n))
	r.reply.AppendItem(buf, n)
	return nil
}

// readTarget reads a symbolic link.
func readTarget(o *object) ([]byte, error) {
	if o.typ != unix.S_IFLNK {
		return nil, errInval
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(o.path, "", b)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}
