package controlplane_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// issuer is a CA of browsers' certificates.
type issuer struct {
	t   *testing.T
	own tls.Certificate
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	own := have(authtest.NewAuthority("CA"))(t)
	return &issuer{t, own}
}

// issue makes a certificate for a client.
func (ca *issuer) issue(name string, change ...func(*x509.Certificate)) tls.Certificate {
	ca.t.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, f := range change {
		f(c)
	}
	pair := have(authtest.Sign(c, &ca.own))(ca.t)
	return pair
}

// openTLS serves a console that takes certificates of a CA: operators are those
// named ops-*, and vera is a viewer. The base is its address, and the client trusts it.
func openTLS(t *testing.T, ca *issuer) *browser {
	t.Helper()
	files, client := certificate(t)
	t.Cleanup(client.CloseIdleConnections)
	files.ClientCA = filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(files.ClientCA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.own.Leaf.Raw}), 0o600))
	b := open(t, func(cfg *controlplane.Config) {
		cfg.Console = controlplane.Console{Listen: "127.0.0.1:0", TLS: files}
		cfg.Access.Rules.Rules = []auth.Rule{{Role: auth.Operator, Certificates: []string{"ops-*"}}, {Role: auth.Viewer, Certificates: []string{"vera"}}}
	})
	b.http, b.base = client, "https://"+b.control.ConsoleAddr()
	return b
}

// as is a browser at the same console, with a certificate and the cookies of b.
func (b *browser) as(pair ...tls.Certificate) *browser {
	b.t.Helper()
	other := *b
	transport := b.http.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.Certificates = pair
	other.http = &http.Client{Transport: transport}
	b.t.Cleanup(other.http.CloseIdleConnections)
	return &other
}

// enter begins a session with the certificate.
func (b *browser) enter() *browser {
	b.t.Helper()
	a := b.do("POST", "/session", "")
	if a.StatusCode != http.StatusNoContent || len(a.Cookies()) != 1 {
		b.t.Fatalf("login: %s %s", a.Status, a.text)
	}
	b.cookies = a.Cookies()
	return b
}

// TestLoginByCertificate: the session has the certificate's name and role, and
// changes what that role may change.
func TestLoginByCertificate(t *testing.T) {
	ca := newIssuer(t)
	b := openTLS(t, ca)
	ops := b.as(ca.issue("ops-1")).enter()
	if a := ops.do("POST", statusPath, "{}"); !strings.Contains(a.text, `"actor":"ops-1"`) || !strings.Contains(a.text, `"role":"ROLE_OPERATOR"`) {
		t.Errorf("%s %s", a.Status, a.text)
	}
	if a := ops.do("POST", setPath, setBody); a.StatusCode != http.StatusOK {
		t.Errorf("%s %s", a.Status, a.text)
	}
	log, err := rdmadv1.NewAuditServiceClient(b.client).ListAudit(t.Context(), &rdmadv1.ListAuditRequest{})
	if err != nil || log.GetEntries()[0].GetActor() != "ops-1" {
		t.Errorf("audited %v, %v", log, err)
	}
	vera := b.as(ca.issue("vera")).enter()
	if a := vera.do("POST", setPath, setBody); a.code() != "permission_denied" {
		t.Errorf("a viewer's certificate: %s %s", a.Status, a.text)
	}
}

// TestCertificatesThatDoNotEnter: of another CA, expired, for servers, without a
// role, with a name of rdmad's own, and none at all.
func TestCertificatesThatDoNotEnter(t *testing.T) {
	ca, other := newIssuer(t), newIssuer(t)
	b := openTLS(t, ca)
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	server := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	for name, pair := range map[string]tls.Certificate{
		"another CA's": other.issue("ops-1"), "expired": ca.issue("ops-1", expired), "a server's": ca.issue("ops-1", server),
	} {
		r := have(http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/session", nil))(t)
		r.Header.Set("Origin", b.base)
		if res, err := b.as(pair).http.Do(r); err == nil {
			res.Body.Close()
			t.Errorf("%s: %s", name, res.Status)
		}
	}
	for name, want := range map[string]string{"stranger": "has no role", "rdmad": "a name of rdmad's own", "anonymous": "a name of rdmad's own"} {
		if a := b.as(ca.issue(name)).do("POST", "/session", ""); a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.text, want) || len(a.Cookies()) > 0 {
			t.Errorf("%s: %s %s", name, a.Status, a.text)
		}
	}
	if a := b.as().do("POST", "/session", ""); a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.text, "no client certificate") {
		t.Errorf("none: %s %s", a.Status, a.text)
	}
	if a := b.as(ca.issue("ops-1")).do("POST", statusPath, "{}"); a.code() != "unauthenticated" {
		t.Errorf("a certificate without a session, which other origins could use: %s %s", a.Status, a.text)
	}
	if a := b.as(ca.issue("ops-1")).do("POST", "/session", "", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); a.StatusCode != http.StatusForbidden {
		t.Errorf("another origin begins a session: %s", a.Status)
	}
}

// TestCookieNeedsItsCertificate: the cookie of a session that began with a
// certificate is of no use to somebody else. A token begins a session without one.
func TestCookieNeedsItsCertificate(t *testing.T) {
	ca := newIssuer(t)
	b := openTLS(t, ca)
	ops := b.as(ca.issue("ops-1")).enter()
	for name, thief := range map[string]*browser{"none": ops.as(), "of another client": ops.as(ca.issue("vera")), "of the same name": ops.as(ca.issue("ops-1"))} {
		if a := thief.do("POST", statusPath, "{}"); a.code() != "unauthenticated" {
			t.Errorf("certificate %s: %s %s", name, a.Status, a.text)
		}
		if a := thief.do("DELETE", "/session", ""); a.StatusCode != http.StatusNoContent {
			t.Errorf("certificate %s: %s %s", name, a.Status, a.text)
		}
	}
	if a := ops.do("POST", statusPath, "{}"); a.StatusCode != http.StatusOK {
		t.Errorf("its own certificate: %s %s", a.Status, a.text)
	}
	if a := b.login().do("POST", statusPath, "{}"); !strings.Contains(a.text, `"actor":"anonymous"`) {
		t.Errorf("a token: %s %s", a.Status, a.text)
	}
}
