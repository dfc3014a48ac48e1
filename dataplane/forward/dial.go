package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// keepAlive detects within about a minute that an idle upstream has vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// dial connects to the upstream, from a reserved port or any.
func (f *Forwarder) dial(ctx context.Context, reserved bool) (net.Conn, error) {
	within, cancel := context.WithTimeout(ctx, f.cfg.DialTimeout)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: keepAlive}
	dial := func() (net.Conn, error) { return d.DialContext(within, "tcp", f.cfg.Address) }
	if reserved {
		dial = func() (net.Conn, error) {
			nc, err := rpctcp.DialReserved(within, d, f.cfg.Address)
			return nc, withoutPort(err)
		}
	}
	nc, err := dial()
	if err != nil {
		return nil, reason(err, f.cfg.DialTimeout)
	}
	return nc, nil
}

// withoutPort returns the error of a dial from a reserved port: errNoRight or a noPortError if the dial got no such
// port. Only an EACCES of bind(2) counts for that: a filter before the upstream may answer connect(2) with EACCES.
func withoutPort(err error) error {
	call, ok := errors.AsType[*os.SyscallError](err)
	switch {
	case ok && call.Syscall == "bind" && errors.Is(call, syscall.EACCES):
		return errNoRight
	case err != nil && !errors.As(err, new(*net.OpError)): // it has tried all ports
		return &noPortError{err}
	}
	return err
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
	for _, errno := range lacking { // a lookup has only the text of its error
		if strings.HasSuffix(op.Err.Error(), errno.Error()) {
			return errno
		}
	}
	return op.Err
}

// errNoRight means that reserved ports are forbidden.
var errNoRight = fmt.Errorf("no reserved port without CAP_NET_BIND_SERVICE (%w): give it to rdmad, or turn reserved_port off", syscall.EACCES)

// noPortError means that all reserved ports are in use.
type noPortError struct{ error }

// lacking are the errors of a dial that is not made because rdmad lacks descriptors, memory or ports.
var lacking = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRINUSE, syscall.EADDRNOTAVAIL}

// isOurs reports whether a dial failed because of rdmad itself, not of the upstream. EACCES alone is no such reason:
// over IPv6 it may come from a filter before the upstream.
func isOurs(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(lacking, errno) || errors.Is(err, errNoRight) || errors.As(err, new(*noPortError))
}
