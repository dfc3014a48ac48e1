package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

// authority is a CA of a test.
type authority struct {
	t   *testing.T
	own tls.Certificate
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	own, err := authtest.NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, own}
}

func (a *authority) pem() []byte {
	a.t.Helper()
	cert, _ := inPEM(a.t, a.own)
	return cert
}

func inPEM(t *testing.T, pair tls.Certificate) (cert, key []byte) {
	t.Helper()
	cert, key, err := authtest.PEM(pair)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// pair makes a certificate and its key.
func (a *authority) pair(c x509.Certificate) tls.Certificate {
	a.t.Helper()
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	pair, err := authtest.Sign(&c, &a.own)
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// onDisk is the files of a server's TLS.
type onDisk struct {
	t *testing.T
	Files
}

func newFiles(t *testing.T, own, clients *authority) *onDisk {
	t.Helper()
	dir := t.TempDir()
	d := &onDisk{t, Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}}
	d.renew(own)
	d.put(d.ClientCA, clients.pem())
	return d
}

// renew gives the server another certificate.
func (d *onDisk) renew(own *authority) {
	d.t.Helper()
	cert, key := inPEM(d.t, own.pair(x509.Certificate{Subject: pkix.Name{CommonName: "rdmad"}, DNSNames: []string{"rdmad"}}))
	d.put(d.Cert, cert)
	d.put(d.Key, key)
}

// put replaces a file as certificate managers do.
func (d *onDisk) put(name string, text []byte) {
	d.t.Helper()
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		d.t.Fatal(err)
	}
}

// wrapped hides the kind of a connection, as limits do.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

type wrapping struct{ net.Listener }

func (w wrapping) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrapped{c}, nil
}

// served is a server that remembers who called last.
type served struct {
	address string
	mu      sync.Mutex
	last    Identity
}

func serve(t *testing.T, network, address string, creds credentials.TransportCredentials) *served {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{address: l.Addr().String()}
	g := grpc.NewServer(grpc.Creds(creds), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			s.mu.Lock()
			s.last = Peer(ctx)
			s.mu.Unlock()
			return next(ctx, req)
		}))
	healthpb.RegisterHealthServer(g, health.NewServer())
	var running sync.WaitGroup
	running.Go(func() { g.Serve(wrapping{l}) })
	t.Cleanup(func() {
		g.Stop()
		running.Wait()
	})
	return s
}

// call makes one call on a new connection and says who the server took it
// for.
func (s *served) call(t *testing.T, creds credentials.TransportCredentials) (Identity, error) {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = healthpb.NewHealthClient(c).Check(t.Context(), &healthpb.HealthCheckRequest{})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, err
}

func unavailable(err error) bool { return status.Code(err) == codes.Unavailable }

func logTo(b *logtest.Log) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
