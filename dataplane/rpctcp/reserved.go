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
	"time"

	"golang.org/x/sys/unix"
)

// The reserved ports that DialReserved uses, as in Linux's xprt_min_resvport and
// xprt_max_resvport. Lower ports belong to well-known services.
const (
	MinReserved = 665
	MaxReserved = 1023
)

// firstPatience is how long the first address of a name may take alone. After that, all of them divide the time.
const firstPatience = 300 * time.Millisecond

// DialReserved connects from a free reserved port. It tries them downwards from a random
// one. The error is syscall.EACCES if reserved ports are forbidden.
func DialReserved(ctx context.Context, d net.Dialer, address string) (nc net.Conn, err error) {
	const ports = MaxReserved - MinReserved + 1
	first := rand.N(ports)
	d.Control = reuse
	name := address
	for i := range ports {
		d.LocalAddr = &net.TCPAddr{Port: MinReserved + (first+ports-i)%ports}
		one := d
		if address != name {
			one.Timeout = firstPatience
		}
		nc, err = one.DialContext(ctx, "tcp", address)
		if err != nil && address != name && !inUse(err) { // another address of the name may answer, or this one is slow
			nc, err = d.DialContext(ctx, "tcp", name)
		}
		if !inUse(err) {
			return nc, err
		}
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil { // a name is not looked up for each port
			address = op.Addr.String()
		}
	}
	// EADDRNOTAVAIL may also mean that rdmad has no address from which to connect, as while IPv6 is off. A UDP socket
	// shows that, and sends nothing.
	d.LocalAddr = nil
	udp, unreachable := d.DialContext(ctx, "udp", address)
	if unreachable != nil {
		return nil, err
	}
	udp.Close()
	return nil, fmt.Errorf("all ports from %d to %d are in use", MinReserved, MaxReserved)
}

// inUse reports whether a dial failed because its port is in use.
func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// reuse allows a socket the port of a connection that has ended. Otherwise the port stays in
// use for a minute (TIME_WAIT), and there are few reserved ports.
func reuse(_, _ string, raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	})
	return cmp.Or(failed, err)
}
