package nfs

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// object finds the object of a handle, which a peer sent. The caller releases
// it.
func (s *Server) object(handle []byte) (*object, error) {
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
func (s *Server) load(h fh.Handle) (*object, error) {
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

// directory finds a directory whose names are about to be used.
func (s *Server) directory(handle []byte) (*object, error) {
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

// directoryOr is directory for a handle that may well be that of o, a directory
// whose names are about to be used already.
func (s *Server) directoryOr(o *object, handle []byte) (*object, error) {
	if !bytes.Equal(handle, o.handle.Bytes()) {
		return s.directory(handle)
	}
	o.refs.Add(1)
	return o, nil
}

// regular finds a regular file.
func (s *Server) regular(handle []byte) (*object, error) {
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

// child takes over fd, which was opened as name in the directory dir, and
// finds or makes its object. st is filled with its attributes.
func (s *Server) child(dir *object, fd int, name *posix.Name, st *unix.Stat_t, writable bool) (*object, error) {
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

// identified finds the object with an ID, which name in the directory dir has
// just led to, and its attributes. It may know none; then the name has to be
// opened.
func (s *Server) identified(dir *object, id *fh.ID, name *posix.Name, st *unix.Stat_t) (_ *object, ok bool) {
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

// openID opens the object with an ID, where the kernel can, and gets its
// attributes. It returns nil when it is gone or can't be opened so.
func (s *Server) openID(id *fh.ID, epoch uint32, st *unix.Stat_t) *object {
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
func (s *Server) statID(fd int, st *unix.Stat_t) (fh.ID, error) {
	if err := unix.Fstat(fd, st); err != nil {
		return fh.ID{}, err
	}
	return s.identify(fd, st)
}

// openChild opens a name in a directory as O_PATH, as the thread's present
// identity. It never follows a symbolic link and never leaves the directory:
// name has no slash and is not "..".
func (s *Server) openChild(dir *object, name *posix.Name) (int, error) {
	return s.openAt(dir.path, name, unix.O_PATH)
}

// openAt opens a single name in a directory. The kernel is asked to make sure
// that nothing leads elsewhere where it can (openat2, Linux 5.6).
func (s *Server) openAt(dir int, name *posix.Name, flags int) (int, error) {
	if !s.hasOpenat2 {
		return posix.OpenAt(dir, name, flags, 0)
	}
	for {
		fd, err := posix.OpenBeneath(dir, name, uint64(flags))
		switch {
		case isOneOf(err, unix.EINTR, unix.EAGAIN): // a rename elsewhere came in between
		case errors.Is(err, unix.EXDEV):
			return -1, errAccess // another file system is mounted there
		default:
			return fd, err
		}
	}
}
