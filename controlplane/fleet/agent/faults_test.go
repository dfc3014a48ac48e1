package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// etcd out of space is a condition; the node joins when there is space again.
func TestNoSpace(t *testing.T) {
	e := etcdtest.Start(t, "--quota-backend-bytes", "1048576")
	for {
		_, err := e.Client().Put(t.Context(), "filler", strings.Repeat("x", 128<<10))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetNoSpace)
	n.check(t, 4096)
}

// A user without permission on the prefix is a condition.
func TestDenied(t *testing.T) {
	e := etcdtest.Start(t)
	for _, err := range []error{
		second(e.Client().UserAdd(t.Context(), "root", "secret")),
		second(e.Client().RoleAdd(t.Context(), "root")),
		second(e.Client().UserGrantRole(t.Context(), "root", "root")),
		second(e.Client().AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetDenied)
	n.check(t, 4096)
}

func second[T any](_ T, err error) error { return err }

// An expired certificate of etcd is a condition that says so.
func TestExpiredCertificate(t *testing.T) {
	certificate, roots := expired(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).HandshakeContext(t.Context())
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	n := run(t, store.Config{Endpoints: []string{"https://" + l.Addr().String()}, TLS: &tls.Config{RootCAs: roots}}, nil)
	if got := n.await(t, conditions.FleetUntrusted); !strings.Contains(got, "certificate has expired") {
		t.Error(got)
	}
}

// expired is a certificate that has expired, and a pool that trusts it.
func expired(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	pair, err := authtest.Sign(&x509.Certificate{
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	return pair, roots
}
