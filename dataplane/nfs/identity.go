package nfs

import "runtime"

// asCaller runs work on a thread that acts as c in the file system: the kernel checks that
// user's rights, and new objects belong to the user. work must only make system calls. If
// rdmad does not run as root, or c is root, the thread keeps its identity.
func (s *subtree) asCaller(c *cred, work func() error) error {
	if s.switcher == nil || (c.uid == 0 && c.gid == 0) {
		return work()
	}
	runtime.LockOSThread()
	defer s.restoreThread()
	if !s.switcher.Assume(c.uid, c.gid, c.gids) {
		return errAccess // an ID that this user namespace does not have
	}
	return work()
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
