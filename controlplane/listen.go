package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

const unixScheme = "unix://"

// dialStale is how long a socket file's owner, if there is one, has to
// answer.
const dialStale = time.Second

// listen binds the control plane's address: unix:///path, or host:port, whose
// host must be the loopback unless open says that others may reach it.
func listen(ctx context.Context, address string, open bool, p *auth.Policy) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		l, err := bindUnix(ctx, path, p)
		if err != nil {
			return nil, fmt.Errorf("control.listen %s: %w", address, manager.BindReason(err))
		}
		return l, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("control.listen %q is neither host:port nor unix:///path", address)
	}
	return listenTCP(ctx, "control.listen", address, open, "without TLS the control plane listens on the loopback or a Unix socket only")
}

// listenTCP binds the address of a key. Unless others may reach it, it must be on the
// loopback, with a rule as the reason.
func listenTCP(ctx context.Context, key, address string, open bool, rule string) (net.Listener, error) {
	literal := address
	if !open {
		var err error
		if literal, err = loopback(ctx, key, address, rule); err != nil {
			return nil, err
		}
	}
	l, err := tcpaddr.Listen(ctx, literal)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", key, address, manager.BindReason(err))
	}
	return l, nil
}

// loopback resolves the address of a key, and refuses one that other machines
// can reach, with a rule as the reason.
func loopback(ctx context.Context, key, address, rule string) (literal string, err error) {
	open := fmt.Errorf("%s %s: %s", key, address, rule)
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", open // all addresses
	}
	addrs, err := new(net.Resolver).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", key, address, err)
	}
	for _, a := range addrs {
		if !a.Unmap().IsLoopback() {
			return "", open
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare) // IPv4 first
	return net.JoinHostPort(addrs[0].Unmap().String(), port), nil
}

// bindUnix binds a socket file that clients with a role may open. It replaces
// a file that a dead process left. It does not touch a socket on which a
// process answers, or a file that is no socket.
func bindUnix(ctx context.Context, path string, p *auth.Policy) (net.Listener, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("the path must be absolute")
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) { // of a file that was to be made
		return nil, fmt.Errorf("the directory %s does not exist", filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	if err := openTo(path, p); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// TryUnix returns the reason why the control plane could not listen on unix:///path with some
// rules, or nil. It binds the path briefly if it is free. It does not touch an existing socket:
// the service manager may have made it, and a connection would start rdmad.
func TryUnix(ctx context.Context, listen string, rules auth.Rules) error {
	path := strings.TrimPrefix(listen, unixScheme)
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		return nil
	}
	p, err := auth.NewPolicy(rules)
	if err != nil {
		return err
	}
	l, err := bindUnix(ctx, path, p)
	if err == nil {
		err = l.Close()
	}
	return err
}

// openTo sets the users that may open a socket: its owner, the administrators'
// group, or all users if a user that the file's mode cannot name has a role. A
// client that opens the socket has the role of the policy, and no other rights.
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
