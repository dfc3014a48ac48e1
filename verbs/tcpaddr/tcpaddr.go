// Package tcpaddr listens on the TCP addresses that an operator writes.
// 0.0.0.0 is every IPv4 address of the machine. [::] and an empty host are
// every address, IPv4 and IPv6.
package tcpaddr

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen listens on host:port. The host is an address, a name, or empty. The
// error is net.ListenConfig's.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network(address), address)
	if errors.Is(err, syscall.EADDRINUSE) {
		if successor := succeed(ctx, address); successor != nil {
			return successor, nil
		}
	}
	return l, err
}

// key is the key of a context's yielding.
type key struct{}

// yielding are sockets that give their addresses up.
type yielding struct {
	mu      sync.Mutex
	sockets []*net.TCPListener
	given   []netip.AddrPort // bound by successors
}

// Yield returns a context with which Listen can bind an address that one of these sockets
// holds. The caller closes the old socket when the new one accepts, or the new one when it
// keeps the old. Connections that wait to be accepted are not lost if both have the same
// address. Each address is given once.
func Yield(ctx context.Context, sockets []net.Listener) context.Context {
	y := new(yielding)
	for _, s := range sockets {
		if t, ok := s.(*net.TCPListener); ok {
			y.sockets = append(y.sockets, t)
		}
	}
	return context.WithValue(ctx, key{}, y)
}

// succeed listens on an address that a socket of the context holds. It returns nil if there
// is no such socket, or another program holds the address as well.
func succeed(ctx context.Context, address string) net.Listener {
	y, _ := ctx.Value(key{}).(*yielding)
	to, err := net.ResolveTCPAddr(network(address), address)
	if y == nil || err != nil {
		return nil
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	want := plain(to)
	if slices.ContainsFunc(y.given, func(a netip.AddrPort) bool { return overlap(a, want) }) {
		return nil
	}
	l := y.successor(ctx, address, want)
	if l != nil {
		y.given = append(y.given, want)
	}
	return l
}

func (y *yielding) successor(ctx context.Context, address string, want netip.AddrPort) net.Listener {
	overlaps := false
	for _, t := range y.sockets {
		at := plain(t.Addr())
		if at == want {
			return same(t)
		}
		if overlap(at, want) {
			overlaps = true
			share(t)
		}
	}
	if !overlaps {
		return nil
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setReusePort(c) }}
	l, err := lc.Listen(ctx, network(address), address)
	if err != nil {
		return nil
	}
	return l
}

// Of returns the address and the port of a TCP address, or an invalid one for others. An IPv4
// address mapped into IPv6 becomes one of IPv4.
func Of(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// plain returns an address with which others can be compared. Every unspecified address of
// IPv6 is [::].
func plain(a net.Addr) netip.AddrPort {
	at := Of(a)
	if !at.Addr().IsValid() {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())
	}
	return at
}

// overlap reports whether two sockets can't normally have these addresses at a time.
func overlap(a, b netip.AddrPort) bool {
	covers := func(a, b netip.Addr) bool {
		return a == b || a == netip.IPv6Unspecified() || a == netip.IPv4Unspecified() && b.Is4()
	}
	return a.Port() == b.Port() && (covers(a.Addr(), b.Addr()) || covers(b.Addr(), a.Addr()))
}

// same returns another descriptor of a socket. Both accept from the same queue. A file that
// TCPListener.File returns would make both blocking for a moment: an Accept at that moment stays in
// the kernel until the next connection comes, and Close waits for it.
func same(t *net.TCPListener) (l net.Listener) {
	c, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	_ = c.Control(func(fd uintptr) {
		if dup, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			f := os.NewFile(uintptr(dup), "")
			defer f.Close()
			l, _ = net.FileListener(f)
		}
	})
	return l
}

// share lets sockets that set the same option bind addresses that overlap with this one's.
// Programs that do not set the option, as rdmad normally does not, still can't.
func share(t *net.TCPListener) {
	if c, err := t.SyscallConn(); err == nil {
		_ = setReusePort(c) // without it, Listen fails as before
	}
}

func setReusePort(c syscall.RawConn) (err error) {
	controlErr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(controlErr, err)
}

// network is "tcp4" for 0.0.0.0, which "tcp" takes for [::].
func network(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr() == netip.IPv4Unspecified() {
		return "tcp4"
	}
	return "tcp"
}
