package etcdtest

import (
	"crypto/tls"
	"path/filepath"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
)

// CA signs the certificates of a cluster and of its users, and keeps them as files.
type CA struct {
	File string // with its certificate
	dir  string
	ca   *authtest.CA
}

// NewCA makes a CA with its files in a directory.
func NewCA(dir string) (*CA, error) {
	ca, err := authtest.NewCA(dir)
	return &CA{File: filepath.Join(dir, "ca.pem"), dir: dir, ca: ca}, err
}

// Sign makes a certificate with a name, valid until a time, for this machine and names in its
// domain. It returns its files, which replace those of the same name.
func (ca *CA) Sign(name string, until time.Time) (cert, key string, err error) {
	err = ca.ca.Issue(name, time.Until(until), "*"+domain)
	return filepath.Join(ca.dir, name+".pem"), filepath.Join(ca.dir, name+".key"), err
}

// Client returns the TLS configuration of a user.
func (ca *CA) Client(user string) (*tls.Config, error) {
	cert, key, err := ca.Sign(user, time.Now().Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	return authtest.Client(ca.File, cert, key)
}

// flags are those of members.
func (ca *CA) flags() ([]string, error) {
	cert, key, err := ca.Sign("member", time.Now().Add(24*time.Hour))
	return []string{
		"--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca.File, "--client-cert-auth",
		"--peer-cert-file", cert, "--peer-key-file", key, "--peer-trusted-ca-file", ca.File, "--peer-client-cert-auth",
	}, err
}
