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
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// authority issues certificates.
type authority struct {
	ts   *testscript.TestScript
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certificates makes ca.pem, and from it rdmad.pem for 127.0.0.1, olga.pem
// and, out of date, late.pem; and from another authority, other.pem, the
// client stranger.pem. Keys are beside them: certificates.
func certificates(ts *testscript.TestScript, _ bool, _ []string) {
	ca := newAuthority(ts, "ca")
	ca.issue("rdmad", time.Hour)
	ca.issue("olga", time.Hour)
	ca.issue("late", -time.Minute)
	newAuthority(ts, "other").issue("stranger", time.Hour)
}

func newAuthority(ts *testscript.TestScript, name string) *authority {
	a := &authority{ts: ts}
	a.cert = &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(name, a.cert, time.Hour)
	return a
}

func (a *authority) issue(name string, valid time.Duration) {
	a.sign(name, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, valid)
}

// sign writes NAME.pem and NAME.key; a's own certificate signs itself.
func (a *authority) sign(name string, c *x509.Certificate, valid time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.ts.Check(err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(valid)
	by := a.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), by)
	a.ts.Check(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	a.ts.Check(err)
	a.ts.Check(os.WriteFile(a.ts.MkAbs(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	a.ts.Check(os.WriteFile(a.ts.MkAbs(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	cert, err := x509.ParseCertificate(der)
	a.ts.Check(err)
	return cert, key
}
