package child

import (
	"fmt"
	"io"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// KeepPort returns an address of this machine for programs that are started, killed and
// started again. Until kept is closed, the kernel gives its TCP port to nobody who asks for
// any port, nor to a connection: a socket that does not listen stays bound to it. A program
// can listen there if it sets SO_REUSEADDR, as Go does.
func KeepPort() (address string, kept io.Closer, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("child: keeping a port: %w", err)
	}
	file := os.NewFile(uintptr(fd), "port")
	at := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	var bound unix.Sockaddr
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, &at)
	}
	if err == nil {
		bound, err = unix.Getsockname(fd)
	}
	if err != nil {
		file.Close()
		return "", nil, fmt.Errorf("child: keeping a port: %w", err)
	}
	port := bound.(*unix.SockaddrInet4).Port
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(port)).String(), file, nil
}
