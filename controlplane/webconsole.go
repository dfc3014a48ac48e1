package controlplane

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/console"
	"github.com/rdmad/rdmad/controlplane/console/session"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
)

// Console configures the web console. The zero value turns it off.
type Console struct {
	Listen string // host:port; without TLS on the loopback
	// TLS has rdmad's certificate, for Browsers. With a ClientCA they may begin sessions with
	// client certificates.
	TLS *auth.Files
}

// openConsole binds the console, if it is on. Its sessions are clients of
// c.server, which must exist before they begin. A policy gives roles to browsers'
// certificates.
func (c *Controlplane) openConsole(ctx context.Context, cfg *Config, p *auth.Policy) (_ *grpcapi.Console, err error) {
	if cfg.Console.Listen == "" {
		return nil, nil
	}
	var certs *auth.Certificates
	if cfg.Console.TLS != nil {
		if certs, err = auth.LoadCertificates(*cfg.Console.TLS, cfg.Logger); err != nil {
			return nil, fmt.Errorf("console.tls.%w", err)
		}
	}
	l, err := listenTCP(ctx, "console.listen", cfg.Console.Listen, cfg.Console.TLS != nil, "without console.tls the console listens on the loopback only")
	if err != nil {
		return nil, err
	}
	sessions := session.New(func(client auth.Identity) (*grpc.ClientConn, error) { return c.server.As(client) })
	c.console = console.New(console.Config{
		Listener: l, Certificates: certs, Policy: p, Places: cfg.Access.Places.Clients, Logger: cfg.Logger, Sessions: sessions,
	})
	return &grpcapi.Console{Sessions: sessions, Address: c.console.Address}, nil
}

// ConsoleAddr returns the address of the console, or "" while it is off.
func (c *Controlplane) ConsoleAddr() string {
	if c.console == nil {
		return ""
	}
	return address(c.console.Addr())
}

// ServeConsole answers browsers until Shutdown. It then returns nil. It is for a console that
// is on.
func (c *Controlplane) ServeConsole() error { return c.console.Serve() }
