package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

// authority is a CA of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	der, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

var serial = big.NewInt(time.Now().UnixNano())

// sign makes a certificate for a day; a CA's first one is its own.
func (a *authority) sign(c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = serial.Add(serial, big.NewInt(1))
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	}
	parent, with := c, key
	if a.cert != nil {
		parent, with = a.cert, a.key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, key.Public(), with); err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func (a *authority) pem() []byte { return block("CERTIFICATE", a.cert.Raw) }

// issue makes a certificate and its key as PEM.
func (a *authority) issue(c x509.Certificate) (cert, key []byte) {
	a.t.Helper()
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, k := a.sign(&c)
	text, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", text)
}

func (a *authority) pair(c x509.Certificate) tls.Certificate {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.issue(c))
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
	cert, key := own.issue(x509.Certificate{Subject: pkix.Name{CommonName: "rdmad"}, DNSNames: []string{"rdmad"}})
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
