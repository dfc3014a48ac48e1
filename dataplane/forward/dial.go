package forward

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

// keepAlive detects within about a minute that an idle upstream has vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// The reserved ports to use, as in Linux's xprt_min_resvport and xprt_max_resvport. Lower
// ports belong to well-known services.
const (
	minReserved = 665
	maxReserved = 1023
)

// dial connects to the upstream.
func (f *Forwarder) dial(ctx context.Context) (net.Conn, error) {
	within, cancel := context.WithTimeout(ctx, f.cfg.DialTimeout)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: keepAlive}
	dial := func() (net.Conn, error) { return d.DialContext(within, "tcp", f.cfg.Address) }
	if f.cfg.ReservedPort {
		dial = func() (net.Conn, error) { return dialReserved(within, d, f.cfg.Address) }
	}
	nc, err := dial()
	if err != nil {
		return nil, reason(err, f.cfg.DialTimeout)
	}
	return nc, nil
}

// reason returns why a dial failed, without the wrapping of package net.
func reason(err error, timeout time.Duration) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return err
	}
	if op.Timeout() {
		return fmt.Errorf("no connection within %v", timeout)
	}
	if errno, ok := errors.AsType[syscall.Errno](op.Err); ok {
		return errno
	}
	return op.Err
}

// errNoRight means that reserved ports are forbidden.
var errNoRight = fmt.Errorf("no reserved port without CAP_NET_BIND_SERVICE (%w): give it to rdmad, or turn reserved_port off", syscall.EACCES)

// reuse allows a socket the port of a connection that has ended. Otherwise the port stays in
// use for a minute (TIME_WAIT), and there are few reserved ports.
func reuse(_, _ string, raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	})
	return cmp.Or(failed, err)
}

// dialReserved connects from a free reserved port. It tries them downwards from a random
// one.
func dialReserved(ctx context.Context, d net.Dialer, address string) (net.Conn, error) {
	const ports = maxReserved - minReserved + 1
	first := rand.N(ports)
	d.Control = reuse
	for i := range ports {
		d.LocalAddr = &net.TCPAddr{Port: minReserved + (first+ports-i)%ports}
		nc, err := d.DialContext(ctx, "tcp", address)
		switch {
		case err == nil:
			return nc, nil
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		case errors.Is(err, syscall.EACCES):
			return nil, errNoRight
		default:
			return nil, err
		}
	}
	return nil, fmt.Errorf("all ports from %d to %d are in use", minReserved, maxReserved)
}
