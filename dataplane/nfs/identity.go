package nfs

import "runtime"

// identity is a thread's file system identity while it acts for a caller. The
// zero value is the process's own.
type identity struct{ switched bool }

// assume makes the calling goroutine's thread act as c in the file system:
// the kernel then checks rights as for that user, and what is made is the
// user's. The caller's duty is to call restore, from the same goroutine,
// before it does anything but system calls. When rdmad does not run as root,
// and for root itself, there is nothing to do.
func (s *Server) assume(c *cred) (identity, error) {
	if s.switcher == nil || (c.uid == 0 && c.gid == 0) {
		return identity{}, nil
	}
	runtime.LockOSThread()
	if !s.switcher.Assume(c.uid, c.gid, c.gids) {
		s.restoreThread()
		return identity{}, errAccess // an ID that this user namespace does not have
	}
	return identity{switched: true}, nil
}

// restore ends what assume began.
func (id identity) restore(s *Server) {
	if id.switched {
		s.restoreThread()
	}
}

// restoreThread gives the thread its own identity back. A thread that kept
// somebody else's must never serve another call, so that failing, which the
// kernel does not do here, ends the process.
func (s *Server) restoreThread() {
	if !s.switcher.Restore() {
		panic("nfs: a thread's file system identity can't be restored")
	}
	runtime.UnlockOSThread()
}
