package rpctcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The reserved ports that DialReserved uses, as in Linux's xprt_min_resvport and
// xprt_max_resvport. Lower ports belong to well-known services.
const (
	MinReserved = 665
	MaxReserved = 1023
)

// DialReserved connects from a free reserved port. It tries them downwards from a random
// one. The error is syscall.EACCES if reserved ports are forbidden.
func DialReserved(ctx context.Context, d net.Dialer, address string) (net.Conn, error) {
	const ports = MaxReserved - MinReserved + 1
	first := rand.N(ports)
	d.Control = reuse
	for i := range ports {
		d.LocalAddr = &net.TCPAddr{Port: MinReserved + (first+ports-i)%ports}
		nc, err := d.DialContext(ctx, "tcp", address)
		switch {
		case err == nil:
			return nc, nil
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		default:
			return nil, err
		}
	}
	return nil, fmt.Errorf("all ports from %d to %d are in use", MinReserved, MaxReserved)
}

// reuse allows a socket the port of a connection that has ended. Otherwise the port stays in
// use for a minute (TIME_WAIT), and there are few reserved ports.
func reuse(_, _ string, raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	})
	return cmp.Or(failed, err)
}
