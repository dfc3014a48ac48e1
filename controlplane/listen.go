package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const unixScheme = "unix://"

// dialStale is how long a socket file's owner, if there is one, has to
// answer.
const dialStale = time.Second

// listen binds the control plane's address: host:port, whose host must be
// the loopback because there is no TLS, or unix:///path.
func listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return listenUnix(ctx, path)
	}
	literal, err := loopback(ctx, address)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", literal)
	if err != nil {
		return nil, fmt.Errorf("control.listen %s: %w", address, reason(err))
	}
	return l, nil
}

// loopback resolves an address, and refuses one that other machines can
// reach.
func loopback(ctx context.Context, address string) (literal string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("control.listen %q is neither host:port nor unix:///path", address)
	}
	open := fmt.Errorf("control.listen %s: without TLS the control plane listens on the loopback or a Unix socket only", address)
	if host == "" {
		return "", open // all addresses
	}
	addrs, err := new(net.Resolver).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("control.listen %s: %w", address, err)
	}
	for _, a := range addrs {
		if !a.Unmap().IsLoopback() {
			return "", open
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare) // IPv4 first
	return net.JoinHostPort(addrs[0].Unmap().String(), port), nil
}

// listenUnix binds a socket file that its owner alone may use. A file left
// behind by a dead process is replaced; one that somebody answers on, or that
// is no socket, is not touched.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	fail := func(err error) error { return fmt.Errorf("control.listen %s%s: %w", unixScheme, path, reason(err)) }
	if !strings.HasPrefix(path, "/") {
		return nil, fail(errors.New("the path must be absolute"))
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fail(err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fail(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fail(err)
	}
	return l, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file that is no socket is in the way")
	}
	dialer := net.Dialer{Timeout: dialStale}
	c, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// reason strips what net and os say of address and operation, which the
// caller's line says already.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// address is where the control plane listens, as rdmactl's --addr takes it.
func address(a net.Addr) string {
	if a.Network() == "unix" {
		return unixScheme + a.String()
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String()
	}
	return a.String()
}
