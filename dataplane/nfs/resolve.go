package nfs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
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
	fd, err := s.locate.open(&id, &h)
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
	return s.cache.put(s.newObject(h, fd, &st), s.epoch.Load()), nil
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
func (s *Server) child(dir *object, fd int, name string, st *unix.Stat_t, writable bool) (*object, error) {
	id, err := s.statID(fd, st)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	h := s.codec.Seal(&id)
	s.locate.learn(&dir.handle, &h, name)
	epoch := s.epoch.Load()
	o := s.cache.get(&h, epoch)
	if o != nil {
		unix.Close(fd)
		return o, nil
	}
	o = s.newObject(h, fd, st)
	if writable {
		o.adopt()
	}
	o.verified.Store(uint64(epoch) + 1)
	return s.cache.put(o, epoch), nil
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
func (s *Server) openChild(dir *object, name string) (int, error) {
	return s.openAt(dir.path, name, unix.O_PATH)
}

// openAt opens a single name in a directory. The kernel is asked to make sure
// that nothing leads elsewhere where it can (openat2, Linux 5.6).
func (s *Server) openAt(dir int, name string, flags uint64) (int, error) {
	if !s.hasOpenat2 {
		return unix.Openat(dir, name, int(flags)|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	how := unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN: // a rename elsewhere came in between
		case unix.EXDEV:
			return -1, errAccess // another file system is mounted there
		default:
			return fd, err
		}
	}
}
