package auth

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

func caller(ca *authority, pairs ...tls.Certificate) credentials.TransportCredentials {
	return versioned(ca, tls.VersionTLS13, pairs...)
}

func versioned(ca *authority, version uint16, pairs ...tls.Certificate) credentials.TransportCredentials {
	pool := x509.NewCertPool()
	pool.AddCert(ca.own.Leaf)
	return credentials.NewTLS(&tls.Config{ServerName: "rdmad", RootCAs: pool, Certificates: pairs, MinVersion: tls.VersionTLS12, MaxVersion: version})
}

func named(cn string) x509.Certificate { return x509.Certificate{Subject: pkix.Name{CommonName: cn}} }

// secure serves mutual TLS to operators named ops-*.
func secure(t *testing.T, d *onDisk, log *logtest.Log) (*served, *Certificates) {
	t.Helper()
	certs, err := LoadCertificates(d.Files, logTo(log))
	if err != nil {
		t.Fatal(err)
	}
	p := policy(t, Rules{Rules: []Rule{{Role: Operator, Certificates: []string{"ops-*"}}}})
	return serve(t, "tcp", "127.0.0.1:0", Credentials(p, certs, logTo(log))), certs
}

func TestHandshakes(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	var log logtest.Log
	s, _ := secure(t, newFiles(t, ca, ca), &log)
	id, err := s.call(t, caller(ca, ca.pair(named("ops-1"))))
	if err != nil || id.Name != "ops-1" || id.Role != Operator || !strings.HasPrefix(id.Origin, "127.0.0.1:") || id.Client != "ops-1 at loopback" {
		t.Errorf("%+v, %v", id, err)
	}
	if id, err := s.call(t, caller(ca, ca.pair(named("visitor")))); err != nil || id.Role != None {
		t.Errorf("without a rule: %+v, %v", id, err)
	}
	old := named("ops-1")
	old.NotBefore, old.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour)
	for name, creds := range map[string]credentials.TransportCredentials{
		"expired":       caller(ca, ca.pair(old)),
		"another CA's":  caller(ca, other.pair(named("ops-1"))),
		"none":          caller(ca),
		"TLS 1.2":       versioned(ca, tls.VersionTLS12, ca.pair(named("ops-1"))),
		"no TLS":        insecure.NewCredentials(),
		"nameless":      caller(ca, ca.pair(named(""))),
		"rdmad's":       caller(ca, ca.pair(named("rdmad"))),
		"an uid's":      caller(ca, ca.pair(named("uid 0 (root)"))),
		"unprintable":   caller(ca, ca.pair(named("ops-\n"))),
		"server's fake": caller(other, ca.pair(named("ops-1"))),
	} {
		if id, err := s.call(t, creds); !unavailable(err) {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	if !strings.Contains(log.String(), "control plane client refused") || strings.Count(log.String(), "\n") > 12 {
		t.Errorf("log:\n%s", log.String())
	}
}

func TestCertificateNames(t *testing.T) {
	uri, err := url.Parse("spiffe://example.net/ops/1")
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{
		Subject: pkix.Name{CommonName: "cn"}, EmailAddresses: []string{"ada@example.net"},
		DNSNames: []string{"a.example.net", "b.example.net"}, URIs: []*url.URL{uri},
	}
	var got []string
	for _, drop := range []func(){func() { c.URIs = nil }, func() { c.DNSNames = nil }, func() { c.EmailAddresses = nil }, func() {}} {
		name, err := certificateName(&c)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
		drop()
	}
	if s := strings.Join(got, " "); s != "spiffe://example.net/ops/1 a.example.net ada@example.net cn" {
		t.Error(s)
	}
}

// TestReloadUnderTraffic: certificates and the CA change while clients come;
// none of those that should get in is refused at any moment.
func TestReloadUnderTraffic(t *testing.T) {
	ca := newAuthority(t, "ca")
	var log logtest.Log
	d := newFiles(t, ca, ca)
	s, _ := secure(t, d, &log)
	pair := ca.pair(named("ops-1"))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.call(t, caller(ca, pair)); err != nil {
					t.Errorf("call %d: %v", n, err)
					return
				}
			}
		})
	}
	next := newAuthority(t, "next")
	for range 5 {
		d.renew(ca)
	}
	d.put(d.ClientCA, append(ca.pem(), next.pem()...))
	if _, err := s.call(t, caller(ca, next.pair(named("ops-2")))); err != nil {
		t.Errorf("the new CA's: %v", err)
	}
	close(stop)
	clients.Wait()
	d.put(d.ClientCA, next.pem())
	if _, err := s.call(t, caller(ca, pair)); !unavailable(err) {
		t.Errorf("the old CA's client: %v", err)
	}
	d.renew(next)
	if _, err := s.call(t, caller(next, next.pair(named("ops-2")))); err != nil {
		t.Errorf("the new server: %v", err)
	}
}

// TestBrokenFilesChangeNothing: what was loaded stays, and the log says so
// once.
func TestBrokenFilesChangeNothing(t *testing.T) {
	ca := newAuthority(t, "ca")
	expired := named("rdmad")
	expired.NotBefore, expired.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour)
	oldCert, oldKey := inPEM(t, ca.pair(expired))
	_, otherKey := inPEM(t, ca.pair(named("x")))
	for name, c := range map[string]struct {
		spoil func(*onDisk)
		want  string
	}{
		"no certificate": {func(d *onDisk) { d.put(d.Cert, []byte("nonsense")) }, "cert and key: "},
		"another key":    {func(d *onDisk) { d.put(d.Key, otherKey) }, "private key does not match"},
		"expired":        {func(d *onDisk) { d.put(d.Cert, oldCert); d.put(d.Key, oldKey) }, "has expired on"},
		"gone":           {func(d *onDisk) { os.Remove(d.ClientCA) }, "client_ca: "},
		"empty CA":       {func(d *onDisk) { d.put(d.ClientCA, nil) }, "holds no certificate"},
		"half a CA":      {func(d *onDisk) { d.put(d.ClientCA, append(ca.pem(), ca.pem()[:100]...)) }, "one that is cut off"},
		"a key as CA":    {func(d *onDisk) { d.put(d.ClientCA, otherKey) }, "holds a PRIVATE KEY"},
		"garbage as CA": {func(d *onDisk) {
			d.put(d.ClientCA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
		}, "client_ca: "},
	} {
		var log logtest.Log
		d := newFiles(t, ca, ca)
		s, certs := secure(t, d, &log)
		c.spoil(d)
		for range 3 {
			if _, err := s.call(t, caller(ca, ca.pair(named("ops-1")))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); name != "expired" && n != 1 || !strings.Contains(log.String(), c.want) {
			t.Errorf("%s: log\n%s", name, log.String())
		}
		if _, err := LoadCertificates(d.Files, logTo(&log)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: at the start %v", name, err)
		}
		d.renew(ca)
		d.put(d.ClientCA, ca.pem())
		certs.refresh(time.Now())
		if !strings.Contains(log.String(), "load again") {
			t.Errorf("%s: log\n%s", name, log.String())
		}
	}
}

// TestUnchangedFilesAreNotRead: but for a while after they changed, when a
// further change may not show.
func TestUnchangedFilesAreNotRead(t *testing.T) {
	ca := newAuthority(t, "ca")
	d := newFiles(t, ca, ca)
	certs, err := LoadCertificates(d.Files, logTo(new(logtest.Log)))
	if err != nil {
		t.Fatal(err)
	}
	first := certs.refresh(time.Now())
	if certs.refresh(time.Now()) == first {
		t.Error("not read again at once")
	}
	later := time.Now().Add(settleTime + time.Minute)
	settled := certs.refresh(later)
	if certs.refresh(later) != settled {
		t.Error("read again although nothing changed")
	}
	d.renew(ca)
	if certs.refresh(later) == settled {
		t.Error("a change went unseen")
	}
}
