package auth

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Kernel reports the owners of this machine's sockets.
type Kernel interface {
	// Peer returns the process that connected to a Unix socket, as it was at that time.
	Peer(c *net.UnixConn) (*unix.Ucred, error)
	// Owner returns the user whose TCP socket has these addresses. ok is false if this machine
	// has no such socket.
	Owner(local, remote net.Addr) (uid uint32, ok bool)
}

// machine is the kernel of this machine.
type machine struct{}

// Peer implements Kernel by SO_PEERCRED, see unix(7).
func (machine) Peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var (
		cred *unix.Ucred
		told error
	)
	if err := raw.Control(func(fd uintptr) {
		cred, told = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if told != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", told)
	}
	return cred, nil
}
