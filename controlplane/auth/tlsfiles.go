package auth

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Files are the PEM files of mutual TLS.
type Files struct {
	Cert string // rdmad's own certificate, with those between it and its CA
	Key  string // of Cert
	// ClientCA has certificates of the CAs that clients' certificates come from.
	ClientCA string
	// Browsers is for a server of browsers, which may connect without a certificate and without
	// HTTP/2.
	Browsers bool
}

// Certificates are the files, read again when they change. They are checked before each
// handshake. If a file does not load, one line is logged, and the files loaded before stay in
// force.
type Certificates struct {
	files Files
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Config
	seen    stamps // of the files when they were last read
	settled bool   // they were read long enough after they changed
	failure string // of the last try, "" when it loaded
}

// settleTime is how long a file may change without another time stamp, with
// a generous margin.
const settleTime = 2 * time.Second

// stamps distinguish versions of the files. A copy that keeps the time of the
// original has another inode or change time.
type stamps [3]struct {
	inode, size      int64
	changed, renewed syscall.Timespec
}

// LoadCertificates reads the files. Errors are one line for the operator,
// beginning with the key below control.tls.
func LoadCertificates(files Files, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{files: files, log: log}
	if err := c.load(time.Now()); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns the configuration of a server: only TLS 1.3, with client certificates.
// Sessions are not resumed, so that each client is checked against the present CAs.
func (c *Certificates) Config() *tls.Config {
	cfg := c.files.serverConfig()
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.refresh(time.Now()), nil }
	return cfg
}

func (f *Files) serverConfig() *tls.Config {
	cfg := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2"},
	}
	if f.Browsers {
		cfg.ClientAuth = tls.NoClientCert
		cfg.NextProtos = append(cfg.NextProtos, "http/1.1")
	}
	if f.Browsers && f.ClientCA != "" {
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return cfg
}

// Names returns the names and addresses in rdmad's certificate.
func (c *Certificates) Names() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf := c.current.Certificates[0].Leaf
	names = slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// IsFor reports whether rdmad's certificate is for a host.
func (c *Certificates) IsFor(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Certificates[0].Leaf.VerifyHostname(host) == nil
}

// refresh is what is in force now.
func (c *Certificates) refresh(now time.Time) *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, _, err := c.stat(); err == nil && s == c.seen && c.settled {
		return c.current
	}
	before := c.failure
	err := c.load(now)
	switch {
	case err != nil && c.failure != before:
		c.log.Error("certificates don't load; those from before stay in force", "cert", c.files.Cert, "error", c.failure)
	case err == nil && before != "":
		c.log.Info("certificates load again", "cert", c.files.Cert)
	}
	return c.current
}

// load reads the files; on an error, what is in force stays.
func (c *Certificates) load(now time.Time) error {
	cfg, err := c.read(now)
	if err != nil {
		c.failure = err.Error()
		return err
	}
	c.current, c.failure = cfg, ""
	return nil
}

func (c *Certificates) read(now time.Time) (*tls.Config, error) {
	s, newest, err := c.stat() // before reading: a change meanwhile shows next time
	c.seen, c.settled = s, err == nil && now.Sub(newest) > settleTime
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %w", cause(err))
	}
	if end := pair.Leaf.NotAfter; now.After(end) {
		return nil, fmt.Errorf("cert: %s has expired on %s", c.files.Cert, end.UTC().Format(time.DateTime))
	}
	cfg := c.files.serverConfig()
	cfg.Certificates = []tls.Certificate{pair}
	if c.files.ClientCA != "" {
		if cfg.ClientCAs, err = ReadCAs(c.files.ClientCA); err != nil {
			return nil, fmt.Errorf("client_ca: %w", err)
		}
	}
	return cfg, nil
}

// ReadCAs reads the certificates of a file of CAs, all or none.
func ReadCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		text = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s holds a %s, not only certificates", file, block.Type)
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		pool.AddCert(ca)
		n++
	}
	if n == 0 || bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, fmt.Errorf("%s holds no certificate, or one that is cut off", file)
	}
	return pool, nil
}

func (c *Certificates) stat() (s stamps, newest time.Time, err error) {
	for i, f := range []struct{ key, name string }{
		{"cert", c.files.Cert}, {"key", c.files.Key}, {"client_ca", c.files.ClientCA},
	} {
		if f.name == "" {
			continue
		}
		info, err := os.Stat(f.name)
		if err != nil {
			return stamps{}, newest, fmt.Errorf("%s: %w", f.key, err)
		}
		sys, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return stamps{}, newest, fmt.Errorf("%s: %s has no inode", f.key, f.name)
		}
		s[i].inode, s[i].size, s[i].changed, s[i].renewed = int64(sys.Ino), sys.Size, sys.Mtim, sys.Ctim
		if t := time.Unix(sys.Ctim.Unix()); t.After(newest) {
			newest = t
		}
	}
	return s, newest, nil
}

// cause adds the file to what crypto/tls says only of opening one.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path
	}
	return err
}
