package main

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// The control plane's certificate expires, is cut off, belongs to another key, and is renewed.
func TestCertificateCondition(t *testing.T) {
	dir := t.TempDir()
	ca, err := authtest.NewCA(dir)
	issue := func(name string, valid time.Duration) {
		t.Helper()
		if err == nil {
			err = ca.Issue(name, valid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	renew := func(valid time.Duration) { issue("rdmad", valid) }
	issue("client", day)
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
	authorities, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	p.must(err)
	old, _, err := authtest.PEM(have(authtest.Sign(&x509.Certificate{NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-day), IsCA: true, BasicConstraintsValid: true}, nil))(t))
	p.must(err)
	p.must(os.WriteFile(filepath.Join(dir, "ca.pem"), append(old, authorities...), 0o600))
	p.expect("control.tls.client_ca", conditions.CertificatePartlyValid) // this client is of the other CA
	p.must(os.WriteFile(filepath.Join(dir, "ca.pem"), authorities, 0o600))
	p.expect("control.tls.client_ca", conditions.CertificateValid)
	p.expect("console.tls.client_ca", conditions.CertificateValid)
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

// TestCertificateEnds: without a certificate the metrics have no time for it.
func TestCertificateEnds(t *testing.T) {
	dir := t.TempDir()
	ca := have(authtest.NewCA(dir))(t)
	must(t, ca.Issue("rdmad", time.Hour))
	web := filepath.Join(dir, "web.yml")
	must(t, os.WriteFile(web, []byte("tls_server_config: {cert_file: rdmad.pem, key_file: rdmad.key}\n"), 0o600))
	c := &config.Config{}
	c.Metrics.WebConfig = web
	h := &health{d: &daemon{}, expires: make(map[string]time.Time)}
	h.d.config.Store(c)
	look := func() (reason *conditions.Reason) {
		for _, c := range h.certificates() {
			reason, _ = c.Look(t.Context())
		}
		return reason
	}
	if r := look(); r != conditions.CertificateExpiring || len(h.expiry()) != 1 {
		t.Errorf("%v, and the metrics have %v", r, h.expiry())
	}
	must(t, os.WriteFile(web, nil, 0o600))
	if r := look(); r != nil || len(h.expiry()) != 0 {
		t.Errorf("%v, and the metrics still have %v", r, h.expiry())
	}
	must(t, os.Remove(web))
	if r := look(); r != conditions.CertificateUnreadable {
		t.Errorf("%v", r)
	}
}

// TestHungWebConfig: while the file of metrics.web_config hangs, services and listeners can be changed.
func TestHungWebConfig(t *testing.T) {
	dir := t.TempDir()
	web := filepath.Join(dir, "web.yml")
	must(t, os.WriteFile(web, []byte("{}"), 0o600))
	r := running{t: t, dir: dir}
	c := r.parse("")
	c.Metrics.WebConfig = web
	d := have(bind(t.Context(), c, slog.New(slog.DiscardHandler), nil))(t)
	d.start()
	defer d.stop(time.Minute)
	must(t, errors.Join(os.Remove(web), syscall.Mkfifo(web, 0o600))) // reading it waits for a writer, as for a file server
	w := have(os.OpenFile(web, os.O_RDWR, 0))(t)
	defer func() { must(t, errors.Join(os.Remove(web), w.Close())) }()
	added := make(chan error, 1)
	go func() {
		_, err := d.manager.Services.Add(t.Context(), spec.Service{Name: "other", Echo: &spec.Echo{}})
		added <- err
	}()
	select {
	case err := <-added:
		must(t, err)
	case <-time.After(time.Minute):
		t.Error("a change waits for the file")
	}
}
