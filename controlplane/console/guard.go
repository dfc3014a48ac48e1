package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"connectrpc.com/connect"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/console/session"
)

// policy lets the page use only what this server has, and only files.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard refuses requests under another name than the server's, which a page of
// another site could have a browser make (DNS rebinding), and requests other
// than reading that do not come from the console's own page.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case !s.named(r.Host):
			http.Error(w, "this server is not "+r.Host+"; open the address that rdmactl console prints", http.StatusMisdirectedRequest)
		case !reads && r.Header.Get("Origin") != s.scheme()+"://"+r.Host:
			http.Error(w, "the request does not come from the console's page", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *Server) scheme() string {
	if s.certs != nil {
		return "https"
	}
	return "http"
}

// named says whether a Host is a name of this server: with TLS one of the
// certificate's, else the loopback's, as the browser sees it. The port may
// differ, as through a tunnel.
func (s *Server) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if s.certs != nil {
		return s.certs.IsFor(host)
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// cookie is the name of the session's cookie. Browsers send a cookie to all
// ports of a host: consoles of one host have their port in its name.
func (s *Server) cookie(r *http.Request) string {
	_, number, _ := net.SplitHostPort(r.Host)
	name := "rdmad_console_" + number
	if s.certs != nil {
		return "__Host-" + name
	}
	return name
}

func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, secret string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is set with TLS; without it the console is on loopback only
		Name: s.cookie(r), Value: secret, Path: "/", MaxAge: age,
		Secure: s.certs != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// secret is a request's proof of its session, or "".
func (s *Server) secret(r *http.Request) string {
	c, err := r.Cookie(s.cookie(r))
	if err != nil {
		return ""
	}
	return c.Value
}

// browser is a request's connection.
func browser(r *http.Request) session.Browser {
	b := session.Browser{Address: r.RemoteAddr}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		b.Certificate = r.TLS.PeerCertificates[0]
	}
	return b
}

// login begins a session with the token of the Authorization header, or without one
// with the certificate of the connection.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	secret, c, err := s.begin(r)
	if err != nil {
		s.log.Warn("console login refused", "peer", r.RemoteAddr, "reason", err.Error())
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	s.end(r)
	s.log.Info("console session began", "session", c.ID, "actor", c.Client.Name, "role", c.Client.Role.String(), "peer", r.RemoteAddr)
	s.setCookie(w, r, secret, 0)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) begin(r *http.Request) (secret string, _ *session.Session, err error) {
	from := browser(r)
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return s.sessions.Begin(token, from)
	}
	if from.Certificate == nil {
		return "", nil, errNoProof
	}
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "", nil, err
	}
	client, err := s.policy.Certified(r.TLS, net.TCPAddrFromAddrPort(address))
	if err != nil {
		return "", nil, err
	}
	if client.Role == auth.None {
		return "", nil, fmt.Errorf("the certificate of %s has no role; an admin can give it one in control.roles", client.Name)
	}
	return s.sessions.BeginAs(client, from)
}

var errNoProof = errors.New("no token and no client certificate; run rdmactl console")

// logout ends the request's session, if it has one.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.end(r)
	s.setCookie(w, r, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

// end ends the request's session, if it has one.
func (s *Server) end(r *http.Request) {
	if c := s.sessions.Use(s.secret(r), browser(r)); c != nil {
		s.sessions.End(c.ID)
		c.Done()
		s.log.Info("console session ended", "session", c.ID, "actor", c.Client.Name)
	}
}

// noSession says why a request has no session.
func (s *Server) noSession(r *http.Request) error {
	secret := s.secret(r)
	switch {
	case s.ending.Load():
		return errEnding
	case secret != "" && !s.sessions.Made(secret):
		return errRestarted
	}
	return errNoSession
}

var errEnding = connect.NewError(connect.CodeUnavailable, errors.New("rdmad is ending"))

var errRestarted = connect.NewError(connect.CodeUnauthenticated, errors.New("rdmad has restarted, which ends all sessions; run rdmactl console"))

var errNoSession = connect.NewError(connect.CodeUnauthenticated, errors.New("no session, or it has ended; run rdmactl console"))
