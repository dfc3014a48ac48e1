// Package console serves the web console: a static page, and the control plane's API for
// browsers.
//
// The API is that of gRPC. Each request of a session is forwarded to the gRPC server as a
// client with the session's name and role. So validation, roles, rates and the audit log are
// the same as for all clients. Package session keeps the sessions.
//
// The caller binds with New, calls Serve once, and ends with Shutdown.
package console

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/console/session"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// Bounds of the HTTP server.
const (
	headerTime = 5 * time.Second
	idleTime   = 5 * time.Minute
	sendTime   = 30 * time.Second // for one write to a browser
	maxHeader  = 16 << 10         // bytes
	maxRequest = 256 << 10        // bytes
)

// Config configures a Server. All fields but Certificates and SendTime are required.
type Config struct {
	Listener net.Listener
	// Certificates are for a server of browsers; nil without TLS.
	Certificates *auth.Certificates
	Policy       *auth.Policy // gives roles to browsers' certificates
	Sessions     *session.Store
	Places       *connlimit.Table // of connections
	Logger       *slog.Logger
	SendTime     time.Duration // for one write to a browser; zero for 30 s
}

// Server is the console.
type Server struct {
	http     http.Server
	listener net.Listener
	certs    *auth.Certificates
	policy   *auth.Policy
	sessions *session.Store
	log      *slog.Logger
	answers  answers
	ending   atomic.Bool // sessions have ended because rdmad ends
}

// New makes a server. It owns the listener.
func New(cfg Config) *Server {
	s := &Server{certs: cfg.Certificates, policy: cfg.Policy, sessions: cfg.Sessions, log: cfg.Logger}
	s.listener = &timed{port.Listen(cfg.Listener, cfg.Places, nil, cfg.Logger), cmp.Or(cfg.SendTime, sendTime)}
	if s.certs != nil {
		s.listener = tls.NewListener(s.listener, s.certs.Config())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /session", s.login)
	mux.HandleFunc("DELETE /session", s.logout)
	mux.Handle("GET /", page())
	s.api(mux)
	s.http = http.Server{
		Handler:           s.guard(mux),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       sendTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          port.ErrorLog(cfg.Logger, slog.LevelDebug, "console"),
		ConnState:         port.ConnState,
	}
	return s
}

// Serve answers requests until Shutdown. It then returns nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Shutdown ends the sessions with their streams, and lets other requests finish.
// If ctx ends first, it ends them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ending.Store(true)
	s.sessions.Close()
	err := s.http.Shutdown(ctx)
	s.http.Close()
	s.listener.Close() // of a server that never served
	return err
}

// Address returns the address that begins a session with a token. The token is
// in the fragment, which browsers send to no server.
func (s *Server) Address(token string) string {
	at := netip.MustParseAddrPort(s.listener.Addr().String())
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	_, number, _ := net.SplitHostPort(at.String())
	host := at.Addr().String()
	if s.certs != nil {
		if names := s.certs.Names(); !s.certs.IsFor(host) && len(names) > 0 {
			machine, _ := os.Hostname() // without it, the first name
			host = ownName(machine, names)
		}
	}
	return s.scheme() + "://" + net.JoinHostPort(host, number) + "/#token=" + token
}

// ownName returns the name of this machine among those in a certificate, or the first one. A
// certificate may be for several machines, and a name with a wildcard for all of a domain.
func ownName(machine string, names []string) string {
	label, domain, _ := strings.Cut(machine, ".")
	own := slices.IndexFunc(names, func(name string) bool {
		return name == machine || strings.HasPrefix(name, label+".") || domain != "" && name == "*."+domain
	})
	return strings.Replace(names[max(own, 0)], "*", label, 1)
}

// timed bounds the time of each write on its connections: a browser that does
// not read loses its connection.
type timed struct {
	net.Listener
	timeout time.Duration
}

// Accept implements net.Listener.
func (l *timed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &timedConn{c, l.timeout}, nil
}

type timedConn struct {
	net.Conn
	timeout time.Duration
}

// NetConn returns the connection that it bounds.
func (c *timedConn) NetConn() net.Conn { return c.Conn }

// Write implements net.Conn.
func (c *timedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
