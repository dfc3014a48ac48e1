package auth

import (
	"fmt"
	"net"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// peer asks the kernel for the process that connected to a Unix socket, as it
// was then (SO_PEERCRED, unix(7)).
func (p *Policy) peer(c *net.UnixConn) (Identity, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Identity{}, err
	}
	var (
		cred *unix.Ucred
		told error
	)
	if err := raw.Control(func(fd uintptr) {
		cred, told = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Identity{}, err
	}
	if told != nil {
		return Identity{}, fmt.Errorf("SO_PEERCRED: %w", told)
	}
	id := "uid " + strconv.FormatUint(uint64(cred.Uid), 10)
	role := p.user(cred.Uid, cred.Gid)
	return Identity{
		Name:   id + userName(cred.Uid),
		Origin: "unix pid " + strconv.Itoa(int(cred.Pid)),
		Role:   role,
		Client: id,
		Kept:   role == Admin,
	}, nil
}

// userName is " (name)", or nothing when the user database doesn't know it.
func userName(uid uint32) string {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil || !printable(u.Username) {
		return ""
	}
	return " (" + u.Username + ")"
}
