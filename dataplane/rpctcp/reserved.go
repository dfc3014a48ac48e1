package rpctcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
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
	var tried attempts
	d.Control = tried.control
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
		if err != nil && !inUse(err) { // that of one address
			nc, err = tried.others(ctx, d, err)
		}
		if !inUse(err) {
			return nc, err
		}
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil { // a name is not looked up for each port
			address = op.Addr.String()
		}
	}
	if noSource(ctx, d, address) {
		return nil, err
	}
	return nil, fmt.Errorf("all ports from %d to %d are in use", MinReserved, MaxReserved)
}

// noSource reports whether there is no address from which to connect, as while IPv6 is off. EADDRNOTAVAIL may mean that,
// too. A UDP socket shows it, and sends nothing.
func noSource(ctx context.Context, d net.Dialer, address string) bool {
	d.LocalAddr = nil
	udp, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return true
	}
	udp.Close()
	return false
}

// attempts are the addresses that dials of a name have tried.
type attempts struct {
	mu sync.Mutex
	to []string
}

// control is the Control of these dials, each of which may try two addresses at a time.
func (a *attempts) control(_, address string, raw syscall.RawConn) error {
	a.mu.Lock()
	if !slices.Contains(a.to, address) {
		a.to = append(a.to, address)
	}
	a.mu.Unlock()
	return reuse(raw)
}

// others is for a failed dial of a name, which returns the error of one address: the port may be in use for another one
// that answers. It returns that error, or err.
func (a *attempts) others(ctx context.Context, d net.Dialer, err error) (net.Conn, error) {
	failed, ok := errors.AsType[*net.OpError](err)
	if !ok || failed.Addr == nil {
		return nil, err
	}
	a.mu.Lock()
	to := slices.Clone(a.to)
	a.mu.Unlock()
	d.Timeout = firstPatience
	for _, address := range to {
		if address == failed.Addr.String() {
			continue
		}
		nc, other := d.DialContext(ctx, "tcp", address)
		if other == nil || inUse(other) && !noSource(ctx, d, address) {
			return nc, other
		}
	}
	return nil, err
}

// inUse reports whether a dial failed because its port is in use.
func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// reuse allows a socket the port of a connection that has ended. Otherwise the port stays in
// use for a minute (TIME_WAIT), and there are few reserved ports.
func reuse(raw syscall.RawConn) (err error) {
	failed := raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	})
	return cmp.Or(failed, err)
}
