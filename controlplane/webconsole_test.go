package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/controlplane/planetest"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// browser is a browser at the console of a control plane.
type browser struct {
	t       *testing.T
	control *controlplane.Controlplane
	client  *grpc.ClientConn // of an operator at a terminal
	http    *http.Client
	base    string
	cookies []*http.Cookie
}

// open serves a console, and has a browser without a session.
func open(t *testing.T, change ...func(*controlplane.Config)) *browser {
	t.Helper()
	cfg := controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0", Console: controlplane.Console{Listen: "127.0.0.1:0"}}
	for _, f := range change {
		f(&cfg)
	}
	dir := t.TempDir()
	served := make(chan error, 1)
	b := &browser{t: t, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() { // after serve's
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	b.control, b.client = serve(t, cfg, func(c *controlplane.Controlplane) {
		if err := c.OpenAudit(dir); err != nil {
			t.Error(err)
		}
	})
	go func() { served <- b.control.ServeConsole() }()
	t.Cleanup(b.http.CloseIdleConnections)
	b.base = "http://" + b.control.ConsoleAddr()
	return b
}

func viewer(cfg *controlplane.Config) {
	cfg.Access.Rules.Default = new(auth.Viewer)
}

// address asks for an address at the control plane, as rdmactl console does.
func (b *browser) address() (address, token string) {
	b.t.Helper()
	res := have(rdmadv1.NewConsoleServiceClient(b.client).OpenConsole(b.t.Context(), &rdmadv1.OpenConsoleRequest{}))(b.t)
	address, token, _ = strings.Cut(res.GetAddress(), "/#token=")
	return address, token
}

// answer is an answer of the console.
type answer struct {
	*http.Response
	text string
}

// do makes a request of the console's page; change makes it another one.
func (b *browser) do(method, path, body string, change ...func(*http.Request)) answer {
	b.t.Helper()
	r := have(http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body)))(b.t)
	r.Header.Set("Origin", b.base)
	r.Header.Set("Content-Type", "application/json")
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	for _, f := range change {
		f(r)
	}
	res, err := b.http.Do(r)
	must(b.t, err)
	defer res.Body.Close()
	text := have(io.ReadAll(res.Body))(b.t)
	return answer{res, string(text)}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// login begins a session.
func (b *browser) login() *browser {
	b.t.Helper()
	_, token := b.address()
	a := b.do("POST", "/session", "", bearer(token))
	if a.StatusCode != http.StatusNoContent || len(a.Cookies()) != 1 {
		b.t.Fatalf("login: %s %s", a.Status, a.text)
	}
	b.cookies = a.Cookies()
	return b
}

const (
	statusPath = "/rdmad.v1.StatusService/GetStatus"
	setPath    = "/rdmad.v1.SettingsService/SetSettings"
	setBody    = `{"settings": {"credits": {"max": 7}}}`
)

// creditsMax is the setting that setBody changes, and its revision.
func (b *browser) creditsMax() (string, uint32) {
	b.t.Helper()
	res := have(rdmadv1.NewSettingsServiceClient(b.client).GetSettings(b.t.Context(), &rdmadv1.GetSettingsRequest{Keys: []string{"credits.max"}}))(b.t)
	return res.GetValues()[0].GetValue(), res.GetRevision()
}

// code is the code of an error of Connect.
func (a answer) code() string {
	var e struct{ Code string }
	_ = json.Unmarshal([]byte(a.text), &e) // "" is no code
	return e.Code
}

// TestConsoleIsTheAPI: a session's request has the client's name and role, is
// validated, changes a setting, and is in the audit log.
func TestConsoleIsTheAPI(t *testing.T) {
	b := open(t).login()
	if a := b.do("POST", statusPath, "{}"); !strings.Contains(a.text, `"actor":"anonymous"`) || !strings.Contains(a.text, `"role":"ROLE_ADMIN"`) {
		t.Errorf("%s %s", a.Status, a.text)
	}
	if a := b.do("POST", setPath, setBody); a.StatusCode != http.StatusOK {
		t.Errorf("%s %s", a.Status, a.text)
	}
	if v, _ := b.creditsMax(); v != "7" {
		t.Errorf("credits.max is %s", v)
	}
	for body, code := range map[string]string{
		`{"settings": {"credits": {"max": 0}}}`:                         "invalid_argument",
		`{"settings": {"credits": {"most": 8}}}`:                        "invalid_argument",
		`{"settings": {"credits": {"max": 8}}, "expected_revision": 0}`: "aborted",
	} {
		if a := b.do("POST", setPath, body); a.code() != code {
			t.Errorf("%s: %s, want %s", body, a.text, code)
		}
	}
	res := have(rdmadv1.NewAuditServiceClient(b.client).ListAudit(t.Context(), &rdmadv1.ListAuditRequest{}))(t)
	sessions, err := rdmadv1.NewConsoleServiceClient(b.client).ListConsoleSessions(t.Context(), &rdmadv1.ListConsoleSessionsRequest{})
	if err != nil || len(sessions.GetSessions()) != 1 {
		t.Fatalf("%v, %v", sessions, err)
	}
	last := res.GetEntries()[len(res.GetEntries())-1]
	if id := sessions.GetSessions()[0].GetId(); last.GetAction() != strings.TrimPrefix(setPath, "/") || !strings.HasPrefix(last.GetOrigin(), "console "+id+" 127.0.0.1:") {
		t.Errorf("audited %v, session %s", last, id)
	}
}

// TestConsoleOfAViewer: the server refuses what a viewer may not, whatever the
// page shows.
func TestConsoleOfAViewer(t *testing.T) {
	b := open(t, viewer).login()
	if a := b.do("POST", statusPath, "{}"); !strings.Contains(a.text, `"role":"ROLE_VIEWER"`) {
		t.Errorf("%s %s", a.Status, a.text)
	}
	for _, path := range []string{setPath, "/rdmad.v1.AuditService/ListAudit", "/rdmad.v1.ListenerService/RemoveListener"} {
		if a := b.do("POST", path, "{}"); a.StatusCode != http.StatusForbidden || a.code() != "permission_denied" {
			t.Errorf("%s: %s %s", path, a.Status, a.text)
		}
	}
}

// TestConsoleOfNobody: a client without a role gets no address.
func TestConsoleOfNobody(t *testing.T) {
	b := open(t, func(cfg *controlplane.Config) { cfg.Access.Rules.Default = new(auth.None) })
	_, err := rdmadv1.NewConsoleServiceClient(b.client).OpenConsole(t.Context(), &rdmadv1.OpenConsoleRequest{})
	if status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
}

// TestDNSRebinding: a page whose name leads to the loopback reaches nothing, not
// even the files.
func TestDNSRebinding(t *testing.T) {
	b := open(t).login()
	for _, host := range []string{"evil.example", "evil.example:20052", "127.0.0.1.evil.example", "192.0.2.1:20052", ""} {
		for _, path := range []string{statusPath, "/session", "/"} {
			a := b.do("POST", path, "{}", func(r *http.Request) {
				r.Host = host
				r.Header.Set("Origin", "http://"+host)
			})
			want := http.StatusMisdirectedRequest
			if host == "" { // then Go sends the address
				want = http.StatusForbidden
			}
			if a.StatusCode != want {
				t.Errorf("Host %q %s: %s", host, path, a.Status)
			}
		}
	}
	a := b.do("GET", "/", "", func(r *http.Request) { r.Host = "evil.example" })
	if a.StatusCode != http.StatusMisdirectedRequest {
		t.Error(a.Status)
	}
}

// TestCrossOrigin: requests that pages of other origins make with the session's
// cookie change nothing.
func TestCrossOrigin(t *testing.T) {
	b := open(t).login()
	_, before := b.creditsMax()
	for _, origin := range []string{"https://evil.example", "null", "", "http://127.0.0.1:1", strings.Replace(b.base, "http", "https", 1), "http://localhost" + b.base[strings.LastIndexByte(b.base, ':'):]} {
		for _, kind := range []string{"application/json", "application/proto", "text/plain"} {
			a := b.do("POST", setPath, setBody, func(r *http.Request) {
				r.Header.Set("Origin", origin)
				r.Header.Set("Content-Type", kind)
			})
			if a.StatusCode != http.StatusForbidden {
				t.Errorf("Origin %q %s: %s", origin, kind, a.Status)
			}
		}
		if a := b.do("DELETE", "/session", "", func(r *http.Request) { r.Header.Set("Origin", origin) }); a.StatusCode != http.StatusForbidden {
			t.Errorf("Origin %q ends the session: %s", origin, a.Status)
		}
	}
	if a := b.do("GET", setPath, ""); a.StatusCode == http.StatusOK {
		t.Errorf("GET changes settings: %s", a.text)
	}
	if _, after := b.creditsMax(); after != before {
		t.Errorf("revision %d, before %d", after, before)
	}
}

func TestConsoleTokenWorksOnce(t *testing.T) {
	b := open(t)
	_, token := b.address()
	for i, want := range []int{http.StatusNoContent, http.StatusUnauthorized} {
		if a := b.do("POST", "/session", "", bearer(token)); a.StatusCode != want {
			t.Errorf("use %d: %s", i, a.Status)
		}
	}
	for _, a := range []answer{b.do("POST", "/session", "", bearer("")), b.do("POST", "/session", "")} {
		if a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) > 0 {
			t.Error(a.Status)
		}
	}
}

// TestWithoutSession: no cookie, a guessed one, a token as the cookie, and that
// of a session that was ended.
func TestWithoutSession(t *testing.T) {
	b := open(t).login()
	mine := b.cookies[0]
	_, token := b.address()
	refused := func(what string) {
		t.Helper()
		if a := b.do("POST", statusPath, "{}"); a.StatusCode != http.StatusUnauthorized || a.code() != "unauthenticated" {
			t.Errorf("%s: %s %s", what, a.Status, a.text)
		}
	}
	b.cookies = nil
	refused("no cookie")
	for _, guess := range []string{"", "AAAAAAAAAAAAAAAAAAAAAAAAAA", token, mine.Value + "A"} {
		b.cookies = []*http.Cookie{{Name: mine.Name, Value: guess}}
		refused("cookie " + guess)
	}
	b.cookies = []*http.Cookie{mine}
	sessions := rdmadv1.NewConsoleServiceClient(b.client)
	all := have(sessions.ListConsoleSessions(t.Context(), &rdmadv1.ListConsoleSessionsRequest{}))(t)
	id := all.GetSessions()[0].GetId()
	if _, err := sessions.EndConsoleSession(t.Context(), &rdmadv1.EndConsoleSessionRequest{Id: id}); err != nil {
		t.Error(err)
	}
	refused("an ended session")
	if _, err := sessions.EndConsoleSession(t.Context(), &rdmadv1.EndConsoleSessionRequest{Id: id}); status.Code(err) != codes.NotFound {
		t.Errorf("ended twice: %v", err)
	}
	b.login()
	if a := b.do("DELETE", "/session", ""); a.StatusCode != http.StatusNoContent || a.Cookies()[0].MaxAge >= 0 {
		t.Errorf("%s %v", a.Status, a.Cookies())
	}
	refused("after the logout")
}

// TestSessionOfAnotherRun: after a restart the answer says why there is no session.
func TestSessionOfAnotherRun(t *testing.T) {
	b, before := open(t).login(), open(t).login()
	b.cookies[0].Value = before.cookies[0].Value
	if a := b.do("POST", statusPath, "{}"); a.code() != "unauthenticated" || !strings.Contains(a.text, "rdmad has restarted") {
		t.Errorf("%s %s", a.Status, a.text)
	}
	b.login().do("DELETE", "/session", "")
	if a := b.do("POST", statusPath, "{}"); a.code() != "unauthenticated" || strings.Contains(a.text, "restarted") {
		t.Errorf("after the logout: %s %s", a.Status, a.text)
	}
}

// TestSessionBeginsNoOther: a session could live for ever otherwise.
func TestSessionBeginsNoOther(t *testing.T) {
	b := open(t).login()
	for _, path := range []string{
		"/rdmad.v1.ConsoleService/OpenConsole", "/rdmad.v1.ConsoleService/EndConsoleSession",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.channelz.v1.Channelz/GetServers",
	} {
		if a := b.do("POST", path, "{}"); a.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s %s", path, a.Status, a.text)
		}
	}
}

// TestConsoleHeaders: every answer keeps other sites and caches out.
func TestConsoleHeaders(t *testing.T) {
	b := open(t).login()
	for _, a := range []answer{b.do("GET", "/", ""), b.do("POST", statusPath, "{}"), b.do("GET", "/missing", ""), b.do("GET", "/", "", func(r *http.Request) { r.Host = "evil.example" })} {
		csp := a.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q without %q", a.Request.URL, csp, want)
			}
		}
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", a.Request.URL, a.Header)
		}
	}
	c := b.cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || c.Domain != "" || c.MaxAge != 0 {
		t.Errorf("cookie %v", c)
	}
}

// TestConsoleStreams: a stream of telemetry ends with its session.
func TestConsoleStreams(t *testing.T) {
	b := open(t).login()
	watch := connect.NewClient[rdmadv1.WatchTelemetryRequest, rdmadv1.WatchTelemetryResponse](
		b.http, b.base+"/rdmad.v1.TelemetryService/WatchTelemetry")
	req := connect.NewRequest(&rdmadv1.WatchTelemetryRequest{Interval: durationpb.New(100e6)})
	req.Header().Set("Origin", b.base)
	req.Header().Set("Cookie", b.cookies[0].String())
	stream := have(watch.CallServerStream(t.Context(), req))(t)
	defer stream.Close()
	if !stream.Receive() || stream.Msg().GetTotal() == nil {
		t.Fatalf("%v, %v", stream.Msg(), stream.Err())
	}
	if a := b.do("DELETE", "/session", ""); a.StatusCode != http.StatusNoContent {
		t.Error(a.Status)
	}
	for stream.Receive() {
		continue // what was on its way
	}
	if connect.CodeOf(stream.Err()) != connect.CodeCanceled {
		t.Error(stream.Err())
	}
}

// certificate writes a certificate for example.com and 127.0.0.1.
func certificate(t *testing.T) (*auth.Files, *http.Client) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	cert, key, err := authtest.PEM(s.TLS.Certificates[0])
	f := &auth.Files{Browsers: true, Cert: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
	must(t, errors.Join(err, os.WriteFile(f.Cert, cert, 0o600), os.WriteFile(f.Key, key, 0o600)))
	client := s.Client()
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	return f, client
}

// TestConsoleTLS: its names are those of the certificate, and the cookie is for
// HTTPS alone.
func TestConsoleTLS(t *testing.T) {
	files, client := certificate(t)
	b := open(t, func(cfg *controlplane.Config) { cfg.Console = controlplane.Console{Listen: "0.0.0.0:0", TLS: files} })
	b.http = client
	t.Cleanup(client.CloseIdleConnections)
	address, _ := b.address()
	_, port, _ := strings.Cut(b.control.ConsoleAddr(), ":")
	if address != "https://example.com:"+port {
		t.Errorf("address %s", address)
	}
	b.base = "https://127.0.0.1:" + port
	b.login()
	if c := b.cookies[0]; !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("cookie %v", c)
	}
	if a := b.do("POST", statusPath, "{}"); a.StatusCode != http.StatusOK || a.ProtoMajor != 2 {
		t.Errorf("%s %s", a.Proto, a.Status)
	}
	for _, host := range []string{"localhost", "evil.example"} {
		if a := b.do("GET", "/", "", func(r *http.Request) { r.Host = host }); a.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("Host %s: %s", host, a.Status)
		}
	}
}

// TestConsoleAddresses: other machines reach the console only by TLS, and a
// console that is off says how to turn it on.
func TestConsoleAddresses(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0"} {
		_, err := controlplane.New(t.Context(), controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0", Console: controlplane.Console{Listen: listen}})
		if err == nil || !strings.Contains(err.Error(), "without console.tls") {
			t.Errorf("%s: %v", listen, err)
		}
	}
	c, client := serve(t, controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0"})
	_, err := rdmadv1.NewConsoleServiceClient(client).OpenConsole(context.Background(), &rdmadv1.OpenConsoleRequest{})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "console.listen") || c.ConsoleAddr() != "" {
		t.Errorf("%v, %s", err, c.ConsoleAddr())
	}
}
