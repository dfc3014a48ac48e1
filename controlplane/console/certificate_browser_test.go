package console_test

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
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
)

// issuer is a CA of a server and of browsers.
type issuer struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &issuer{t: t, dir: t.TempDir(), key: key}
	ca.cert = &x509.Certificate{
		Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := ca.sign(ca.cert, key.Public())
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.write("ca.pem", "CERTIFICATE", der)
	return ca
}

// sign makes a certificate.
func (ca *issuer) sign(c *x509.Certificate, key any) []byte {
	ca.t.Helper()
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, ca.cert, key, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return der
}

// write writes a file in PEM, and returns its path.
func (ca *issuer) write(name, kind string, der []byte) string {
	ca.t.Helper()
	path := filepath.Join(ca.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatal(err)
	}
	return path
}

// server has the files of a console at 127.0.0.1.
func (ca *issuer) server() *auth.Files {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	der := ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "gateway"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public())
	return &auth.Files{
		Browsers: true, Cert: ca.write("cert.pem", "CERTIFICATE", der), Key: ca.write("key.pem", "PRIVATE KEY", private), ClientCA: filepath.Join(ca.dir, "ca.pem"),
	}
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
	der := ca.sign(&x509.Certificate{Subject: asked.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, asked.PublicKey)
	certutil("-A", "-n", name, "-t", ",,", "-a", "-i", ca.write("client.pem", "CERTIFICATE", der))
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
