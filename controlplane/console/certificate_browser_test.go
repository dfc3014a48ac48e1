package console_test

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/auth/authtest"
)

// issuer is a CA of a server and of browsers.
type issuer struct {
	*authtest.CA
	t   *testing.T
	dir string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	dir := t.TempDir()
	ca, err := authtest.NewCA(dir)
	if err == nil {
		err = ca.Issue("gateway", time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{ca, t, dir}
}

// server has the files of a console at 127.0.0.1.
func (ca *issuer) server() *auth.Files {
	return &auth.Files{
		Browsers: true, Cert: filepath.Join(ca.dir, "gateway.pem"), Key: filepath.Join(ca.dir, "gateway.key"), ClientCA: filepath.Join(ca.dir, "ca.pem"),
	}
}

// sign signs the key of a browser, and returns the certificate's file.
func (ca *issuer) sign(asked *x509.CertificateRequest) string {
	ca.t.Helper()
	now, file := time.Now(), filepath.Join(ca.dir, "client.der")
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: asked.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}, ca.Pair.Leaf, asked.PublicKey, ca.Pair.PrivateKey)
	if err := errors.Join(err, os.WriteFile(file, der, 0o600)); err != nil {
		ca.t.Fatal(err)
	}
	return file
}

// home makes a home directory in whose certificate store chromium finds a client
// certificate, and trusts the CA.
func (ca *issuer) home(name string) string {
	ca.t.Helper()
	home := ca.t.TempDir()
	store, request := filepath.Join(home, ".pki", "nssdb"), filepath.Join(ca.dir, "request.der")
	noise := filepath.Join(ca.dir, "noise")
	random := make([]byte, 64)
	_, _ = rand.Read(random) // never fails
	if err := os.MkdirAll(store, 0o700); err != nil {
		ca.t.Fatal(err)
	}
	if err := os.WriteFile(noise, random, 0o600); err != nil {
		ca.t.Fatal(err)
	}
	certutil := func(args ...string) {
		ca.t.Helper()
		if out, err := exec.CommandContext(ca.t.Context(), "certutil", append([]string{"-d", "sql:" + store}, args...)...).CombinedOutput(); err != nil {
			ca.t.Fatalf("certutil %q: %v: %s", args, err, out)
		}
	}
	certutil("-N", "--empty-password")
	certutil("-R", "-s", "CN="+name, "-k", "ec", "-q", "nistp256", "-z", noise, "-o", request)
	text, err := os.ReadFile(request)
	if err != nil {
		ca.t.Fatal(err)
	}
	asked, err := x509.ParseCertificateRequest(text)
	if err != nil {
		ca.t.Fatal(err)
	}
	certutil("-A", "-n", name, "-t", ",,", "-i", ca.sign(asked))
	certutil("-A", "-n", "CA", "-t", "CT,,", "-a", "-i", filepath.Join(ca.dir, "ca.pem"))
	return home
}

// choosing makes a chromium that sends its client certificate without asking a user.
func choosing(t *testing.T, home string) []chromedp.ExecAllocatorOption {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "Default")
	if err := os.Mkdir(profile, 0o700); err != nil {
		t.Fatal(err)
	}
	const preferences = `{"profile": {"content_settings": {"exceptions": {"auto_select_certificate": {"https://127.0.0.1:*,*": {"setting": {"filters": [{}]}}}}}}}`
	if err := os.WriteFile(filepath.Join(profile, "Preferences"), []byte(preferences), 0o600); err != nil {
		t.Fatal(err)
	}
	return []chromedp.ExecAllocatorOption{chromedp.Env("HOME=" + home), chromedp.UserDataDir(filepath.Dir(profile))}
}

// TestLoginByCertificate: a browser with a certificate needs no token, and goes on
// after a restart of rdmad.
func TestLoginByCertificate(t *testing.T) {
	if _, err := exec.LookPath("certutil"); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("left out: %s: Debian's package libnss3-tools is missing", t.Name())
	}
	ca := newIssuer(t)
	p := launch(t, auth.Viewer, func(p *page) {
		p.tls, p.rules = ca.server(), []auth.Rule{{Role: auth.Operator, Certificates: []string{"ops-*"}}}
		p.options = choosing(t, ca.home("ops-1"))
	})
	p.do("no token", chromedp.Navigate("https://"+p.console+"/"), text("#who", "ops-1, operator"), text("h1", "Overview"))
	p.stop()
	p.do("blind", text("#alarm", "rdmad does not answer since 20"))
	p.serve(auth.Viewer, p.console)
	p.do("another rdmad", text("#notice", "rdmad did not answer from 20"), text("#who", "ops-1, operator"), text("h1", "Overview"), holds("document.getElementById('alarm').hidden"))
	p.do("ended", click("End session"), text("h1", "The session has ended"))
	p.do("again", click("Begin a session with a certificate"), text("#who", "ops-1, operator"))
}
