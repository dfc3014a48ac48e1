package posix

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Place identifies a directory among all mounted file systems.
type Place struct {
	Major, Minor uint32
	Ino          uint64
}

// MaxUp is the most levels that PlaceAbove can go up.
const MaxUp = 128

// ups is "../../.." with MaxUp levels and a final NUL. Its tails are the paths
// to all ancestors.
var ups = []byte(strings.Repeat("../", MaxUp-1) + "..\x00")

// PlaceAbove stores in p the place of the ancestor that is levels above the
// directory fd. levels is 1 to MaxUp. The root directory is its own parent.
func PlaceAbove(fd, levels int, p *Place) error {
	return placeAt(fd, &ups[3*(MaxUp-levels)], 0, p)
}

// PlaceOf stores in p the place of the open directory fd.
func PlaceOf(fd int, p *Place) error {
	return placeAt(fd, &empty[0], unix.AT_EMPTY_PATH, p)
}

func placeAt(fd int, path *byte, flags uintptr, p *Place) error {
	var st unix.Statx_t
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(path)),
		flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO, uintptr(unsafe.Pointer(&st)), 0)
	*p = Place{st.Dev_major, st.Dev_minor, st.Ino}
	return errorOf(errno)
}

// Mount returns the ID of the mount that fd is on. It returns 0 if the kernel
// (before 5.8) does not report it.
func Mount(fd int) (int, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, nil
	}
	return int(st.Mnt_id), nil
}
