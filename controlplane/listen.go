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

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/manager"
)

const unixScheme = "unix://"

// dialStale is how long a socket file's owner, if there is one, has to
// answer.
const dialStale = time.Second

// listen binds the control plane's address: unix:///path, or host:port, whose
// host must be the loopback unless open says that others may reach it.
func listen(ctx context.Context, address string, open bool, p *auth.Policy) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return listenUnix(ctx, path, p)
	}
	literal := address
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("control.listen %q is neither host:port nor unix:///path", address)
	}
	if !open {
		var err error
		if literal, err = loopback(ctx, address); err != nil {
			return nil, err
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", literal)
	if err != nil {
		return nil, fmt.Errorf("control.listen %s: %w", address, manager.BindReason(err))
	}
	return l, nil
}

// loopback resolves an address, and refuses one that other machines can
// reach.
func loopback(ctx context.Context, address string) (literal string, err error) {
	open := fmt.Errorf("control.listen %s: without TLS the control plane listens on the loopback or a Unix socket only", address)
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
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

// listenUnix binds a socket file that those may open who have a role. A file
// left behind by a dead process is replaced; one that somebody answers on, or
// that is no socket, is not touched.
func listenUnix(ctx context.Context, path string, p *auth.Policy) (net.Listener, error) {
	fail := func(err error) error {
		return fmt.Errorf("control.listen %s%s: %w", unixScheme, path, manager.BindReason(err))
	}
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
	if err := openTo(path, p); err != nil {
		l.Close()
		return nil, fail(err)
	}
	return l, nil
}

// openTo sets who may open a socket: its owner, the administrators' group, or
// everybody when users that can't be told by the file's mode have a role.
// Whoever gets in has the role that the policy says, and that alone.
func openTo(path string, p *auth.Policy) error {
	mode := os.FileMode(0o600)
	if gid, ok := p.AdminGroup(); ok {
		if err := os.Lchown(path, -1, int(gid)); err != nil {
			return fmt.Errorf("give it to group %d: %w", gid, manager.BindReason(err))
		}
		mode = 0o660
	}
	if p.OpenToUsers() {
		mode = 0o666
	}
	return os.Chmod(path, mode)
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
