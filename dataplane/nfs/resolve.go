package nfs

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// object returns the object of a handle that a peer sent. The caller must release it.
func (s *subtree) object(handle []byte) (*object, error) {
	h, ok := fh.FromBytes(handle)
	if !ok {
		return nil, errBadHandle
	}
	epoch := s.epoch.Load()
	mark := uint64(epoch) + 1
	o := s.cache.get(&h, epoch)
	if o == nil {
		var err error
		if o, err = s.load(h); err != nil {
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
func (s *subtree) load(h fh.Handle) (*object, error) {
	id, err := s.codec.Open(&h)
	if errors.Is(err, fh.ErrForeign) {
		return nil, errStale
	}
	if err != nil {
		return nil, errBadHandle
	}
	if err := s.cache.room(); err != nil {
		return nil, err
	}
	fd, err := s.locate.open(id)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Nlink == 0 {
		unix.Close(fd)
		if err == nil {
			err = errStale
		}
		return nil, err
	}
	return s.cache.put(s.newObject(&id, h, fd, &st), s.epoch.Load()), nil
}

// directory returns a directory whose names will be used.
func (s *subtree) directory(handle []byte) (*object, error) {
	o, err := s.object(handle)
	if err != nil {
		return nil, err
	}
	if !o.isDir() {
		err = errNotDir
	} else {
		err = s.insideDir(o)
	}
	if err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// otherDirectory is directory for the second handle of a call. A handle of another export gets
// errXDev.
func (s *subtree) otherDirectory(handle []byte) (*object, error) {
	if s.export.srv.elsewhere(s.export, handle) {
		return nil, errXDev
	}
	return s.directory(handle)
}

// directoryOr is directory for a handle that may be that of o, a directory that is already
// in use.
func (s *subtree) directoryOr(o *object, handle []byte) (*object, error) {
	if !bytes.Equal(handle, o.handle.Bytes()) {
		return s.otherDirectory(handle)
	}
	o.refs.Add(1)
	return o, nil
}

// regular returns a regular file.
func (s *subtree) regular(handle []byte) (*object, error) {
	o, err := s.object(handle)
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
	id, err := s.statID(fd, st)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	epoch := s.epoch.Load()
	o := s.cache.find(&id, epoch)
	if o != nil {
		unix.Close(fd)
	} else {
		o = s.newObject(&id, s.codec.Seal(&id), fd, st)
		if writable {
			o.adopt()
		}
		o = s.cache.put(o, epoch)
	}
	s.locate.learn(dir, id, name)
	o.verified.Store(uint64(epoch) + 1)
	return o, nil
}

// identified returns the object with an ID, to which name in the directory dir has just
// led, and its attributes. ok is false if it is unknown. Then the name must be opened.
func (s *subtree) identified(dir *object, id *fh.ID, name *posix.Name, st *unix.Stat_t) (_ *object, ok bool) {
	epoch := s.epoch.Load()
	o := s.cache.find(id, epoch)
	if o == nil {
		if o = s.openID(id, epoch, st); o == nil {
			return nil, false
		}
	} else if o.stat(st) != nil {
		o.release()
		return nil, false
	}
	s.locate.learn(dir, *id, name)
	o.verified.Store(uint64(epoch) + 1)
	return o, true
}

// openID opens the object with an ID, if the kernel can, and gets its attributes. It
// returns nil if the object is gone or cannot be opened this way.
func (s *subtree) openID(id *fh.ID, epoch uint32, st *unix.Stat_t) *object {
	if !s.opensIDs() || s.cache.room() != nil {
		return nil
	}
	fd, err := s.locate.open(*id)
	if err != nil {
		return nil
	}
	if unix.Fstat(fd, st) != nil || st.Nlink == 0 {
		unix.Close(fd)
		return nil
	}
	return s.cache.put(s.newObject(id, s.codec.Seal(id), fd, st), epoch)
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
