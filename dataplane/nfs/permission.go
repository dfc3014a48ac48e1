package nfs

import (
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// Rights, as in faccessat(2).
const (
	mayRead  = unix.R_OK
	mayWrite = unix.W_OK
	mayExec  = unix.X_OK
)

// permitted asks the kernel whether the caller has all rights of mask on o.
func (s *Server) permitted(o *object, c *cred, mask uint32) error {
	id, err := s.assume(c)
	if err != nil {
		return err
	}
	defer id.restore(s)
	return s.ask(o, c, mask)
}

// ask is permitted on a thread that acts for the caller already.
func (s *Server) ask(o *object, c *cred, mask uint32) error {
	err := posix.Access(o.path, mask)
	if isOneOf(err, unix.ENOSYS, unix.EINVAL) {
		return s.permittedByMode(o, c, mask)
	}
	return err
}

// permittedByMode is ask for kernels without faccessat2 (before 5.8):
// it knows no access control lists.
func (s *Server) permittedByMode(o *object, c *cred, mask uint32) error {
	var st unix.Stat_t
	if err := o.stat(&st); err != nil {
		return err
	}
	who := *c
	if s.switcher == nil {
		who = cred{uid: s.ownUID, gid: s.ownGID, gids: s.ownGroups}
	}
	bits := st.Mode
	switch {
	case who.uid == 0:
		bits = 0o6
		if o.isDir() || st.Mode&0o111 != 0 {
			bits = 0o7
		}
	case who.uid == st.Uid:
		bits >>= 6
	case who.in(st.Gid):
		bits >>= 3
	}
	if bits&mask != mask {
		return errAccess
	}
	return nil
}

// in says whether c belongs to a group.
func (c *cred) in(gid uint32) bool {
	if c.gid == gid {
		return true
	}
	for _, g := range c.gids {
		if g == gid {
			return true
		}
	}
	return false
}

// mayUse checks that the caller may read or write the data of a regular file
// with the attributes st. Its owner always may: a client checks rights when a
// file is opened, and an open file stays usable whatever becomes of its mode
// (NFSD_MAY_OWNER_OVERRIDE of Linux's server). Reading is allowed to those who
// may execute the file, too: to the server, running it is reading it.
func (s *Server) mayUse(o *object, c *cred, st *unix.Stat_t, mask uint32) error {
	if s.switcher == nil || c.uid == 0 || c.uid == st.Uid {
		return nil
	}
	err := s.permitted(o, c, mask)
	if err != nil && mask == mayRead {
		return s.permitted(o, c, mayExec)
	}
	return err
}

// actsAsRoot says whether the caller is above file permissions.
func (s *Server) actsAsRoot(c *cred) bool { return s.switcher != nil && c.uid == 0 }
