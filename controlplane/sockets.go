package controlplane

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/manager"
)

// bind takes the socket that the service manager bound at the configured
// path, or binds the configured address.
func bind(ctx context.Context, cfg *Config, p *auth.Policy) (net.Listener, error) {
	path, unix := strings.CutPrefix(cfg.Listen, unixScheme)
	var taken net.Listener
	for _, l := range cfg.Sockets {
		_, unixSocket := l.(*net.UnixListener)
		if taken == nil && unix && unixSocket && l.Addr().String() == filepath.Clean(path) {
			taken = l
			continue
		}
		cfg.Logger.Warn("a socket from the service manager is not used: control.listen doesn't name it, and clients that connect to it wait in vain",
			"socket", address(l.Addr()), "control.listen", cfg.Listen)
		l.Close()
	}
	cfg.Sockets = nil
	if taken == nil {
		return listen(ctx, cfg.Listen, cfg.Access.reachable(), p)
	}
	if err := openTo(filepath.Clean(path), p); err != nil {
		taken.Close()
		return nil, fmt.Errorf("control.listen %s%s: %w", unixScheme, path, manager.BindReason(err))
	}
	return taken, nil
}
