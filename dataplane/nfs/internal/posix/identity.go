package posix

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Switcher lets threads of a root process act as other users in the file
// system, for one call at a time, with only the rights of that user.
type Switcher struct {
	gid    uint32
	groups []uint32
	own    caps // the process's capabilities
	// refill means that the kernel does not restore all capabilities of the
	// process together with user 0.
	refill bool
}

// maxGroups bounds the groups of an identity, from AUTH_SYS or of the process.
const maxGroups = 1024

// wanted are capabilities over files that root has and other users don't.
// denied are all that users must not get: CAP_SYS_RESOURCE would lift their
// quotas and limits.
const (
	wanted = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN
	denied = wanted | 1<<unix.CAP_SYS_RESOURCE
)

// NewSwitcher tests whether threads can become another user and come back. ok
// is false if the process is not root, lacks the capabilities, or is in a user
// namespace without other users, as in a rootless container.
func NewSwitcher(gid uint32, groups []uint32) (s *Switcher, ok bool) {
	s = &Switcher{gid: gid, groups: groups}
	if unix.Geteuid() != 0 || len(groups) > maxGroups || !s.own.get() || s.own[0].Effective&wanted != wanted {
		return nil, false
	}
	tried := make(chan bool)
	go func() {
		// The thread ends with the goroutine. After it was another user, it
		// keeps credentials of its own. With these the kernel rejects its
		// commands on files that other threads opened (RDMA devices).
		runtime.LockOSThread()
		tried <- s.try()
	}()
	return s, <-tried
}

// try becomes another user and comes back. It checks that the kernel removes
// the capabilities with user 0 and restores them. The thread must not be used
// afterwards.
func (s *Switcher) try() bool {
	var user, after caps
	ok := s.Assume(65534, 65534, nil) && user.get() && user[0].Effective&denied == 0
	restored := s.Restore() && after.get()
	if restored && after != s.own {
		s.refill = true
		restored = s.Restore() && after.get() && after == s.own
	}
	return ok && restored
}

// Assume makes the calling thread act as a user. The caller must have locked
// its goroutine to the thread. Assume sets the effective IDs (setresuid(2),
// setresgid(2)), which the file system IDs follow, and the groups
// (setgroups(2)), for this thread only, unlike package syscall. The kernel
// removes all capabilities until the user is 0 again. That is possible because
// the saved user is 0, as in every process started as root. If Assume returns
// false, the thread has a mixture of identities. In either case the caller must
// call Restore.
func (s *Switcher) Assume(uid, gid uint32, groups []uint32) bool {
	return len(groups) <= maxGroups && setGroups(groups) && setEffective(unix.SYS_SETRESGID, gid) &&
		setEffective(unix.SYS_SETRESUID, uid)
}

// Restore gives the calling thread its original identity. If it returns false,
// the thread must not be used any more.
func (s *Switcher) Restore() bool {
	return setEffective(unix.SYS_SETRESUID, 0) && setEffective(unix.SYS_SETRESGID, s.gid) && setGroups(s.groups) &&
		(!s.refill || s.own.set())
}

// setEffective sets the effective user or group of the thread.
func setEffective(trap uintptr, id uint32) bool {
	const unchanged = ^uint32(0)
	if id == unchanged {
		return false // the kernel would keep the old ID
	}
	_, _, errno := unix.RawSyscall(trap, uintptr(unchanged), uintptr(id), uintptr(unchanged))
	return errno == 0
}

func setGroups(groups []uint32) bool {
	var p unsafe.Pointer
	if len(groups) > 0 {
		p = unsafe.Pointer(&groups[0])
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(p), 0)
	runtime.KeepAlive(groups)
	return errno == 0
}

// caps are a thread's capabilities (capget(2), version 3).
type caps [2]unix.CapUserData

func (c *caps) get() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capget(&hdr, &c[0]) == nil
}

func (c *caps) set() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&hdr, &c[0]) == nil
}
