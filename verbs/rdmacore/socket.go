//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// siw closes a listener's TCP socket when a peer ends a TCP connection that siw has not yet
// accepted, as port scans do. The connection's socket still has the listener's callbacks then,
// so siw_cm_llp_state_change takes the end of the connection for that of the listener. It
// reports nothing. The identifier seems to listen, but peers are refused. Therefore guard
// checks the socket.

// errSocketClosed is why a listener on siw must listen again.
var errSocketClosed = errors.New("siw has closed the listener's socket")

// socketClosed returns errSocketClosed if siw had a socket for the listener and has none any
// more, else nil. On a wildcard address this is noticed when no device has a socket any more.
func (l *listener) socketClosed() error {
	if !l.socket || l.dev != nil && !l.dev.is(vendorSIW) {
		return nil
	}
	if listens, err := listensTCP(l.at); err == nil && !listens {
		return errSocketClosed
	}
	return nil // nothing is known to be wrong
}

// listensTCP reports whether a TCP socket listens at the address and port. No program is
// disturbed: a socket that does not listen, with SO_REUSEADDR, can be bound to every
// address except one at which another listens.
func listensTCP(at netip.AddrPort) (bool, error) {
	var to unix.Sockaddr
	family := unix.AF_INET
	if a := at.Addr(); a.Is4() {
		to = &unix.SockaddrInet4{Port: int(at.Port()), Addr: a.As4()}
	} else {
		family = unix.AF_INET6
		to = &unix.SockaddrInet6{Port: int(at.Port()), Addr: a.As16(), ZoneId: uint32(zoneIndex(a.Zone()))}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return false, err
	}
	if family == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return false, err
		}
	}
	err = unix.Bind(fd, to)
	if errors.Is(err, unix.EADDRINUSE) {
		return true, nil
	}
	return false, err
}
