package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// Info is the result of a handshake.
type Info struct {
	credentials.CommonAuthInfo
	Identity Identity
	// Refused is the reason why the connection may not be used, or nil.
	Refused error
}

// AuthType implements credentials.AuthInfo.
func (Info) AuthType() string { return "rdmad" }

// Peer returns the client of a gRPC request's context, as identified by Credentials. Without
// one it returns an anonymous client without a role.
func Peer(ctx context.Context) Identity {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(Info); ok {
			return info.Identity
		}
	}
	return Identity{Name: Anonymous}
}

// Credentials identify clients of a gRPC server: on Unix sockets by the kernel, elsewhere by
// TLS if certs is not nil. Otherwise clients are anonymous. Connections may be wrapped, with a
// NetConn method that returns the inner one.
func Credentials(p *Policy, certs *Certificates, log *slog.Logger) credentials.TransportCredentials {
	s := &server{policy: p, log: log, turns: newTurns()}
	if certs != nil {
		s.tls = credentials.NewTLS(certs.Config())
	}
	return s
}

type server struct {
	policy *Policy
	tls    credentials.TransportCredentials // nil without TLS
	turns  turns
	log    *slog.Logger
}

// ServerHandshake implements credentials.TransportCredentials.
func (s *server) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := s.handshake(c)
	if err != nil {
		s.log.Warn("control plane client refused", "peer", c.RemoteAddr().String(), "error", err)
	}
	return conn, info, err
}

func (s *server) handshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if u, ok := unwrap(c).(*net.UnixConn); ok {
		id, err := s.policy.peer(u)
		if err != nil {
			c.Close()
			return nil, nil, err
		}
		return c, Info{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, id, nil}, nil
	}
	if s.tls != nil {
		return s.secure(c)
	}
	return c, Info{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, s.policy.stranger(unwrap(c)), nil}, nil
}

// secure makes the TLS handshake.
func (s *server) secure(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	h := &handshaking{c, s.turns}
	s.turns.take()
	conn, info, err := s.tls.ServerHandshake(h)
	h.turns = nil
	s.turns.leave()
	if err != nil {
		return nil, nil, err
	}
	t, ok := info.(credentials.TLSInfo)
	if !ok {
		conn.Close()
		return nil, nil, errUnverified
	}
	id, err := s.policy.Certified(&t.State, c.RemoteAddr())
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, Info{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, id, nil}, nil
}

var errUnverified = errors.New("the client's certificate was not verified")

// Certified returns the client that the verified certificate of a TLS connection names.
func (p *Policy) Certified(t *tls.ConnectionState, from net.Addr) (Identity, error) {
	if len(t.VerifiedChains) == 0 {
		return Identity{}, errUnverified
	}
	name, err := certificateName(t.PeerCertificates[0])
	if err != nil {
		return Identity{}, err
	}
	role := p.certificate(name)
	return Identity{
		Name: name, Origin: from.String(), Role: role, Client: name + " at " + clientHost(from), Kept: role == Admin,
	}, nil
}

// unwrap is the innermost connection.
func unwrap(c net.Conn) net.Conn {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = w.NetConn()
	}
}

// clientHost is what clients of one machine have in common: the IPv4 address,
// the IPv6 /64, or the loopback as a whole.
func clientHost(a net.Addr) string {
	if at, err := netip.ParseAddrPort(a.String()); err == nil && at.Addr().Unmap().IsLoopback() {
		return loopbackHost
	}
	return port.Key(a).String()
}

var errServerOnly = errors.New("credentials of a server")

// ClientHandshake implements credentials.TransportCredentials. There is no client side.
func (*server) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errServerOnly
}

// Info implements credentials.TransportCredentials.
func (s *server) Info() credentials.ProtocolInfo {
	if s.tls != nil {
		return s.tls.Info()
	}
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}

// Clone implements credentials.TransportCredentials.
func (s *server) Clone() credentials.TransportCredentials {
	return new(*s)
}

// OverrideServerName implements credentials.TransportCredentials.
func (*server) OverrideServerName(string) error { return errServerOnly }
