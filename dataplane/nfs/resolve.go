package nfs

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// object returns the object of a handle that a peer sent. The caller must release it.
func (r *request) object(handle []byte) (*object, error) {
	s := r.srv
	h, ok := fh.FromBytes(handle)
	if !ok {
		return nil, errBadHandle
	}
	epoch := s.epoch.Load()
	mark := uint64(epoch) + 1
	o := s.cache.get(&h, epoch)
	if o == nil {
		var err error
		if o, err = r.load(&h); err != nil {
			return nil, err
		}
	}
	if o.verified.Load() == mark {
		return o, nil
	}
	if err := s.inside(o); err != nil {
		s.cache.forget(o)
		o.release()
		return nil, err
	}
	o.verified.Store(mark)
	return o, nil
}

// load opens the object of a handle.
func (r *request) load(h *fh.Handle) (*object, error) {
	id, err := r.srv.codec.Open(h)
	if errors.Is(err, fh.ErrForeign) {
		return nil, errStale
	}
	if err != nil {
		return nil, errBadHandle
	}
	var st unix.Stat_t
	return r.openID(&id, h, &st)
}

// openID opens the object with an ID and a handle, and gets its attributes.
func (r *request) openID(id *fh.ID, h *fh.Handle, st *unix.Stat_t) (*object, error) {
	s := r.srv
	if err := s.cache.room(); err != nil {
		return nil, err
	}
	fd, err := s.locate.open(r, *id)
	if err != nil {
		return nil, err
	}
	if err = unix.Fstat(fd, st); err == nil && st.Nlink == 0 {
		err = errStale
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return s.cache.put(s.newObject(id, *h, fd, st), s.epoch.Load()), nil
}

// directory returns a directory whose names will be used.
func (r *request) directory(handle []byte) (*object, error) {
	o, err := r.object(handle)
	if err != nil {
		return nil, err
	}
	if !o.isDir() {
		err = errNotDir
	} else {
		err = r.srv.insideDir(o)
	}
	if err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// otherDirectory is directory for the second handle of a call. A handle of another export gets
// errXDev.
func (r *request) otherDirectory(handle []byte) (*object, error) {
	if e := r.srv.export; e.srv.elsewhere(e, handle) {
		return nil, errXDev
	}
	return r.directory(handle)
}

// directoryOr is directory for a handle that may be that of o, a directory that is already
// in use.
func (r *request) directoryOr(o *object, handle []byte) (*object, error) {
	if !bytes.Equal(handle, o.handle.Bytes()) {
		return r.otherDirectory(handle)
	}
	o.refs.Add(1)
	return o, nil
}

// regular returns a regular file.
func (r *request) regular(handle []byte) (*object, error) {
	o, err := r.object(handle)
	if err != nil {
		return nil, err
	}
	if o.typ != unix.S_IFREG {
		o.release()
		return nil, errInval
	}
	return o, nil
}

// child takes ownership of fd, which was opened as name in the directory dir, and returns
// its object. It sets st to its attributes.
func (s *subtree) child(dir *object, fd int, name *posix.Name, st *unix.Stat_t, writable bool) (*object, error) {
	o, err := s.objectOf(fd, st, writable)
	if err == nil {
		s.saw(dir, o, name)
	}
	return o, err
}

// objectOf takes ownership of fd and returns its object. It sets st to its attributes. fd is an
// O_PATH descriptor or, if writable, one for data.
func (s *subtree) objectOf(fd int, st *unix.Stat_t, writable bool) (*object, error) {
	id, err := s.statID(fd, st)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	epoch := s.epoch.Load()
	if o := s.cache.find(&id, epoch); o != nil {
		unix.Close(fd)
		return o, nil
	}
	o := s.newObject(&id, s.codec.Seal(&id), fd, st)
	if writable {
		o.adopt()
	}
	return s.cache.put(o, epoch), nil
}

// saw records that name in the directory dir has just led to an object.
func (s *subtree) saw(dir, o *object, name *posix.Name) {
	s.locate.learn(dir, o.id, name)
	o.verified.Store(uint64(s.epoch.Load()) + 1)
}

// identified returns the object with an ID, to which r.name in the directory dir has just
// led, and sets r.st to its attributes. ok is false if it is unknown. Then the name must be opened.
func (r *request) identified(dir *object, id *fh.ID) (_ *object, ok bool) {
	s := r.srv
	o := s.cache.find(id, s.epoch.Load())
	var err error
	switch {
	case o != nil:
		err = o.stat(&r.st)
	case s.opensIDs():
		h := s.codec.Seal(id)
		o, err = r.openID(id, &h, &r.st)
	}
	if o == nil || err != nil {
		o.release()
		return nil, false
	}
	s.saw(dir, o, &r.name)
	return o, true
}

// statID gets attributes and ID of an open object.
func (s *subtree) statID(fd int, st *unix.Stat_t) (fh.ID, error) {
	if err := unix.Fstat(fd, st); err != nil {
		return fh.ID{}, err
	}
	return s.identify(fd, st)
}

// openChild opens a name in a directory as O_PATH, with the thread's current identity. It
// never follows a symbolic link and never leaves the directory: name has no slash and is
// not "..".
func (s *subtree) openChild(dir *object, name *posix.Name) (int, error) {
	return s.openAt(dir.path, name, unix.O_PATH)
}

// openAt opens a single name in a directory. If possible, it asks the kernel to make sure
// that the name leads nowhere else (openat2, Linux 5.6).
func (s *subtree) openAt(dir int, name *posix.Name, flags int) (int, error) {
	if !s.hasOpenat2 {
		return posix.OpenAt(dir, name, flags, 0)
	}
	for {
		fd, err := posix.OpenBeneath(dir, name, uint64(flags))
		switch {
		case isOneOf(err, unix.EINTR, unix.EAGAIN): // a rename elsewhere interfered
		case errors.Is(err, unix.EXDEV):
			return -1, errAccess // another file system is mounted there
		default:
			return fd, err
		}
	}
}
