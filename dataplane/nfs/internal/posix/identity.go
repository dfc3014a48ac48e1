package posix

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Switcher lets threads of a process that runs as root act in the file system
// as other users, one call at a time, with no more rights than they have.
type Switcher struct {
	gid    uint32
	groups []uint32
	own    caps // the process's capabilities
	// refill: with user 0 not all capabilities come back that the process has.
	refill bool
}

// maxGroups bounds the groups of an identity: what AUTH_SYS carries, or the
// process's own.
const maxGroups = 1024

// wanted are capabilities that root has over files and others don't, and
// denied those that users must not have either: theirs are quotas and limits.
const (
	wanted = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN
	denied = wanted | 1<<unix.CAP_SYS_RESOURCE
)

// NewSwitcher tries whether threads can step down and back. ok is false when
// the process is not root, lacks the capabilities, or is in a user namespace
// without other users, as in containers without root.
func NewSwitcher(gid uint32, groups []uint32) (s *Switcher, ok bool) {
	s = &Switcher{gid: gid, groups: groups}
	if unix.Geteuid() != 0 || len(groups) > maxGroups || !s.own.get() || s.own[0].Effective&wanted != wanted {
		return nil, false
	}
	tried := make(chan bool)
	go func() {
		// The thread ends with the goroutine: one that was somebody else has
		// credentials of its own for good, with which the kernel takes no
		// commands on files that others opened (RDMA devices).
		runtime.LockOSThread()
		tried <- s.try()
	}()
	return s, <-tried
}

// try has the calling thread step down, looks that the kernel takes the
// capabilities away with user 0 and gives them back, and steps back. The thread
// is not used again, whatever it is then.
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

// Assume makes the calling thread, to which the caller is locked, act as a
// user: its effective IDs (setresuid(2), setresgid(2)), which those of the
// file system follow, and groups (setgroups(2)) are the user's, unlike with the
// functions of package syscall for this thread alone. The kernel takes all
// capabilities away until user 0 is back, which it may be as the saved user
// is, as in every process that was started as root. If it says false, the thread has a
// mixture of identities; either way, Restore is due.
func (s *Switcher) Assume(uid, gid uint32, groups []uint32) bool {
	return len(groups) <= maxGroups && setGroups(groups) && setEffective(unix.SYS_SETRESGID, gid) &&
		setEffective(unix.SYS_SETRESUID, uid)
}

// Restore makes the calling thread what it was. If it says false, the thread
// must not be used any more.
func (s *Switcher) Restore() bool {
	return setEffective(unix.SYS_SETRESUID, 0) && setEffective(unix.SYS_SETRESGID, s.gid) && setGroups(s.groups) &&
		(!s.refill || s.own.set())
}

// setEffective sets the effective user or group.
func setEffective(trap uintptr, id uint32) bool {
	const unchanged = ^uint32(0)
	if id == unchanged {
		return false // nobody's ID
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
