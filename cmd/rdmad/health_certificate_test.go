package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/conditions"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// authorize makes the files of a CA in dir.
func authorize(t *testing.T, dir string) *authority {
	a := &authority{t: t, dir: dir, cert: &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	a.issue("ca", a.cert, 100*24*time.Hour)
	return a
}

// issue makes NAME.pem and NAME.key; the first signs itself.
func (a *authority) issue(name string, c *x509.Certificate, valid time.Duration) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.key == nil {
		a.key = key
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(valid)
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".key": {Type: "PRIVATE KEY", Bytes: secret}, ".pem": {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// The control plane's certificate expires, is cut off, belongs to another key, and is renewed.
func TestCertificateCondition(t *testing.T) {
	dir := t.TempDir()
	a := authorize(t, dir)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	const day = 24 * time.Hour
	renew := func(valid time.Duration) { a.issue("rdmad", &x509.Certificate{ExtKeyUsage: both}, valid) }
	a.issue("client", &x509.Certificate{ExtKeyUsage: both}, day)
	renew(30 * day)
	p := admit(t, dir, `
control: {listen: "127.0.0.1:0", tls: {cert: DIR/rdmad.pem, key: DIR/rdmad.key, client_ca: DIR/ca.pem}, roles: [{role: admin, certificates: [client]}]}
console: {listen: "127.0.0.1:0", tls: {cert: DIR/rdmad.pem, key: DIR/rdmad.key, client_ca: DIR/ca.pem}}
`+echoListener)
	const cert = "control.tls.cert"
	p.expect(cert, conditions.CertificateValid)
	p.expect("control.tls.client_ca", conditions.CertificateValid)
	p.expect("console.tls.client_ca", conditions.CertificateValid)
	if left := time.Until(p.health.expiry()[cert]); left < 29*day || left > 30*day {
		t.Errorf("the metrics have a certificate that is valid for %v", left)
	}
	p.well()
	renew(13 * day)
	p.expect(cert, conditions.CertificateExpiring)
	p.must(os.WriteFile(filepath.Join(dir, "rdmad.pem"), []byte("cut off"), 0o600))
	p.expect(cert, conditions.CertificateUnreadable)
	if _, known := p.health.expiry()[cert]; known {
		t.Error("a certificate that cannot be read still expires in the metrics")
	}
	renew(30 * day)
	key, err := os.ReadFile(filepath.Join(dir, "client.key"))
	p.must(err)
	p.must(os.WriteFile(filepath.Join(dir, "rdmad.key"), key, 0o600))
	p.expect(cert, conditions.CertificateUnreadable)
	renew(-time.Hour)
	p.expect(cert, conditions.CertificateExpired)
	renew(30 * day)
	p.expect(cert, conditions.CertificateValid)
	p.well()
}
