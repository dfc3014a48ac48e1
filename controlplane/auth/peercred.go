package auth

import (
	"net"
	"os/user"
	"strconv"
)

// peer is the process that connected to a Unix socket.
func (p *Policy) peer(c *net.UnixConn) (Identity, error) {
	cred, err := p.kernel.Peer(c)
	if err != nil {
		return Identity{}, err
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
