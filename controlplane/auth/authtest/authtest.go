// Package authtest makes certificates for tests and for attacks on rdmad.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
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
	Pair tls.Certificate
	dir  string
}

// NewCA makes a certificate authority. Its certificate, ca.pem, is valid for 100 days.
func NewCA(dir string) (*CA, error) {
	ca := &CA{dir: dir}
	var err error
	if ca.Pair, err = NewAuthority("ca"); err != nil {
		return nil, err
	}
	return ca, write(dir, "ca", ca.Pair)
}

// Issue makes NAME.pem and NAME.key, the certificate and key of a server at 127.0.0.1, and at
// other hosts if there are any, and of a client. The certificate is valid from yesterday.
func (ca *CA) Issue(name string, valid time.Duration, hosts ...string) error {
	pair, err := Sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		NotAfter:    time.Now().Add(valid),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    hosts,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, &ca.Pair)
	if err != nil {
		return err
	}
	return write(ca.dir, name, pair)
}

func write(dir, name string, pair tls.Certificate) error {
	cert, key, err := PEM(pair)
	return errors.Join(err,
		os.WriteFile(filepath.Join(dir, name+".pem"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600))
}

// Client returns the configuration of a client that has a certificate with its key, and trusts
// a CA. The arguments are names of files.
func Client(ca, cert, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New(ca + " has no certificate")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}

// NewAuthority makes the certificate and the key of a certificate authority.
func NewAuthority(name string) (tls.Certificate, error) {
	return Sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().AddDate(0, 0, 100),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// Sign makes a certificate like c, signed by a CA, and its key. With by nil the certificate
// signs itself. It is valid from yesterday until tomorrow, unless c says otherwise.
func Sign(c *x509.Certificate, by *tls.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	c.SerialNumber = big.NewInt(now.UnixNano())
	if c.NotBefore.IsZero() {
		c.NotBefore = now.Add(-24 * time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = now.Add(24 * time.Hour)
	}
	parent, with := c, crypto.PrivateKey(key)
	if by != nil {
		parent, with = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), with)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// PEM encodes a certificate and its key.
func PEM(pair tls.Certificate) (cert, key []byte, err error) {
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), err
}
