// Package authtest makes certificates for tests and for attacks on rdmad.
package authtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// CA is a certificate authority with files in a directory.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes a certificate authority. Its certificate, ca.pem, is valid for 100 days.
func NewCA(dir string) (*CA, error) {
	ca := &CA{dir: dir}
	return ca, ca.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, 100*24*time.Hour)
}

// Issue makes NAME.pem and NAME.key, the certificate and key of a server at 127.0.0.1, and at
// other hosts if there are any, and of a client. The certificate is valid from yesterday.
func (ca *CA) Issue(name string, valid time.Duration, hosts ...string) error {
	return ca.sign(name, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    hosts,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, valid)
}

// sign writes a certificate and its key. The first certificate signs itself.
func (ca *CA) sign(name string, c *x509.Certificate, valid time.Duration) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if ca.cert == nil {
		ca.cert, ca.key = c, key
	}
	now := time.Now()
	c.SerialNumber, c.Subject = big.NewInt(now.UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = now.Add(-24*time.Hour), now.Add(valid)
	der, err := x509.CreateCertificate(rand.Reader, c, ca.cert, key.Public(), ca.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(ca.dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(ca.dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}
