package nfs

import "runtime"

// identity is a thread's file system identity while it acts for a caller. The zero value is
// the process's own.
type identity struct{ switched bool }

// assume makes the calling goroutine's thread act as c in the file system: the kernel then
// checks that user's rights, and new objects belong to the user. Until the caller calls
// restore, from the same goroutine, it must only make system calls. If rdmad does not run
// as root, or c is root, assume does nothing.
func (s *subtree) assume(c *cred) (identity, error) {
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

// restore undoes assume.
func (id identity) restore(s *subtree) {
	if id.switched {
		s.restoreThread()
	}
}

// restoreThread restores the thread's own identity. A thread with another identity must
// never serve another call, so a failure, which the kernel does not cause here, ends the
// process.
func (s *subtree) restoreThread() {
	if !s.switcher.Restore() {
		panic("nfs: a thread's file system identity can't be restored")
	}
	runtime.UnlockOSThread()
}
