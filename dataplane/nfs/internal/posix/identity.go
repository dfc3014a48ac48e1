package posix

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxGroups bounds the groups of an identity: what AUTH_SYS carries, or the
// process's own.
const maxGroups = 1024

// SetFSIdentity sets the calling thread's file system user, group and
// supplementary groups (setfsuid(2), setfsgid(2), setgroups(2) by system
// call: the thread alone, unlike the functions of package syscall). Going from
// user 0 to another one takes the thread's capabilities over files away,
// going back gives them back. It says whether all took effect; if not, the
// thread has a mixture and must be set again.
func SetFSIdentity(uid, gid uint32, groups []uint32) bool {
	if len(groups) > maxGroups {
		return false
	}
	var p unsafe.Pointer
	if len(groups) > 0 {
		p = unsafe.Pointer(&groups[0])
	}
	// Groups first: that needs CAP_SETGID, which no change of the file system
	// user takes away, but it fails without harm.
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(p), 0)
	runtime.KeepAlive(groups)
	if errno != 0 {
		return false
	}
	setfs(unix.SYS_SETFSGID, gid)
	setfs(unix.SYS_SETFSUID, uid)
	// Asking for an invalid ID changes nothing and says what is in force.
	return setfs(unix.SYS_SETFSGID, ^uint32(0)) == gid && setfs(unix.SYS_SETFSUID, ^uint32(0)) == uid
}

func setfs(trap uintptr, id uint32) uint32 {
	old, _, _ := unix.RawSyscall(trap, uintptr(id), 0, 0)
	return uint32(old)
}

// CanSwitch says whether this process is above file permissions, and whether
// SetFSIdentity lets one of its threads step down to another user and back. It
// tries it, with the process's own group and groups to go back to.
func CanSwitch(gid uint32, groups []uint32) bool {
	if unix.Geteuid() != 0 || fileCaps() != wantedCaps {
		return false
	}
	runtime.LockOSThread()
	down := SetFSIdentity(65534, 65534, nil) && fileCaps() == 0
	if !SetFSIdentity(0, gid, groups) || fileCaps() != wantedCaps {
		panic("posix: a thread's file system identity can't be restored")
	}
	runtime.UnlockOSThread()
	return down
}

// wantedCaps are capabilities that root has over files and others don't.
const wantedCaps = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN

// fileCaps are those of wantedCaps that the thread has.
func fileCaps() uint32 {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return 0
	}
	return data[0].Effective & wantedCaps
}
