package nfs

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// Rights, as in faccessat(2).
const (
	mayRead  = unix.R_OK
	mayWrite = unix.W_OK
	mayExec  = unix.X_OK
)

// permitted returns an error unless the caller has all rights of mask on o.
func (s *subtree) permitted(o *object, c *cred, mask uint32) error {
	return s.asCaller(c, func() error { return s.ask(o, c, mask) })
}

// ask is permitted on a thread that already acts for the caller.
func (s *subtree) ask(o *object, c *cred, mask uint32) error {
	err := posix.Access(o.path, mask)
	if isOneOf(err, unix.ENOSYS, unix.EINVAL) {
		return s.permittedByMode(o, c, mask)
	}
	return err
}

// permittedByMode is ask for kernels without faccessat2 (before 5.8). It ignores access
// control lists.
func (s *subtree) permittedByMode(o *object, c *cred, mask uint32) error {
	var st unix.Stat_t
	if err := o.stat(&st); err != nil {
		return err
	}
	if mask&^s.rightsByMode(c, &st) != 0 {
		return errAccess
	}
	return nil
}

// rightsByMode returns the rights that the mode in st gives the caller.
func (s *subtree) rightsByMode(c *cred, st *unix.Stat_t) uint32 {
	who := *c
	if s.switcher == nil {
		who = cred{uid: s.ownUID, gid: s.ownGID, gids: s.ownGroups}
	}
	const all = mayRead | mayWrite | mayExec
	switch {
	case who.uid == 0:
		if st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Mode&0o111 != 0 {
			return all
		}
		return mayRead | mayWrite
	case who.uid == st.Uid:
		return st.Mode >> 6 & all
	case who.in(st.Gid):
		return st.Mode >> 3 & all
	}
	return st.Mode & all
}

// in reports whether c belongs to a group.
func (c *cred) in(gid uint32) bool {
	return c.gid == gid || slices.Contains(c.gids, gid)
}

// mayUse checks that the caller may read or write the data of a regular file with the
// attributes st. The owner always may: a client checks rights when it opens a file, and an
// open file stays usable when its mode changes (NFSD_MAY_OWNER_OVERRIDE of Linux's server).
// Callers who may execute the file may also read it: for the server, executing it is
// reading it.
func (s *subtree) mayUse(o *object, c *cred, st *unix.Stat_t, mask uint32) error {
	if !s.mustAsk(c, st) {
		return nil
	}
	return s.asCaller(c, func() error {
		err := s.ask(o, c, mask)
		if err != nil && mask == mayRead {
			return s.ask(o, c, mayExec)
		}
		return err
	})
}

// mustAsk reports whether the kernel must decide about a file's data. It must not for root
// and the file's owner.
func (s *subtree) mustAsk(c *cred, st *unix.Stat_t) bool {
	return s.switcher != nil && c.uid != 0 && c.uid != st.Uid
}

// asWriter runs work with a descriptor for a file's data, as the caller, if the caller may
// write to the file with the attributes st (see mayUse). So set-ID bits are cleared, and
// the user's limits apply.
func (s *subtree) asWriter(o *object, c *cred, st *unix.Stat_t, work func(fd int) error) error {
	ask := s.mustAsk(c, st)
	if ask && o.write.Load() < 0 { // opening it does not depend on the caller
		if err := s.permitted(o, c, mayWrite); err != nil {
			return err
		}
		ask = false
	}
	fd, err := o.writer()
	if err != nil {
		return err
	}
	return s.asCaller(c, func() error {
		if ask {
			if err := s.ask(o, c, mayWrite); err != nil {
				return err
			}
		}
		return work(fd)
	})
}

// actsAsRoot reports whether file permissions do not apply to the caller.
func (s *subtree) actsAsRoot(c *cred) bool { return s.switcher != nil && c.uid == 0 }
