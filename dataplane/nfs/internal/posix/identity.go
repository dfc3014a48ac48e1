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
	user   caps // those of a thread that acts for somebody else than root
}

// maxGroups bounds the groups of an identity: what AUTH_SYS carries, or the
// process's own.
const maxGroups = 1024

// wanted are capabilities that root has over files and others don't.
const wanted = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN

// NewSwitcher tries whether threads can step down and back. ok is false when
// the process is not root, or lacks the capabilities.
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

// try has the calling thread step down, finds out what a user may do, and
// steps back.
func (s *Switcher) try() bool {
	// The kernel takes the capabilities over files away with user 0. The one
	// over quotas and other limits has to go as well.
	ok := setIdentity(65534, 65534, nil) && s.user.get() && s.user[0].Effective&wanted == 0
	s.user[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	ok = ok && s.user.set()
	if !s.Restore() {
		panic("posix: a thread's identity can't be restored")
	}
	return ok
}

// Assume makes the calling thread, to which the caller is locked, act as a
// user (setfsuid(2), setfsgid(2) and, unlike the functions of package syscall
// for this thread alone, setgroups(2) and capset(2)). If it says false, the
// thread has a mixture of identities; either way, Restore is due.
func (s *Switcher) Assume(uid, gid uint32, groups []uint32) bool {
	return setIdentity(uid, gid, groups) && (uid == 0 || s.user.set())
}

// Restore makes the calling thread what it was. If it says false, the thread
// must not be used any more.
func (s *Switcher) Restore() bool {
	return setIdentity(0, s.gid, s.groups) && s.own.set()
}

// setIdentity says whether all took effect.
func setIdentity(uid, gid uint32, groups []uint32) bool {
	if len(groups) > maxGroups {
		return false
	}
	var p unsafe.Pointer
	if len(groups) > 0 {
		p = unsafe.Pointer(&groups[0])
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(p), 0)
	runtime.KeepAlive(groups)
	setID(unix.SYS_SETFSGID, gid)
	setID(unix.SYS_SETFSUID, uid)
	// Asking for an invalid ID changes nothing and says what is in force.
	return errno == 0 && setID(unix.SYS_SETFSGID, ^uint32(0)) == gid && setID(unix.SYS_SETFSUID, ^uint32(0)) == uid
}

// setID makes one of the calls that return the ID from before.
func setID(trap uintptr, id uint32) uint32 {
	old, _, _ := unix.RawSyscall(trap, uintptr(id), 0, 0)
	return uint32(old)
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
