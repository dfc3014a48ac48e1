package metrics

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
)

// hash is the bcrypt hash of "fakepassword".
const hash = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"

// webFiles makes web.yml with TLS and a user, and the files that it names. It returns a
// client that trusts the certificate.
func webFiles(t *testing.T, dir string) *http.Client {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	cert, key, err := authtest.PEM(s.TLS.Certificates[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"cert.pem": cert,
		"key.pem":  key,
		"web.yml":  []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {prometheus: " + hash + "}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s.Client()
}

// The web configuration of Prometheus exporters gives the metrics TLS and users. It is read
// again for each request.
func TestWebConfig(t *testing.T) {
	dir := t.TempDir()
	client, file := webFiles(t, dir), filepath.Join(dir, "web.yml")
	t.Cleanup(client.CloseIdleConnections)
	if err := CheckWebConfig(file); err != nil {
		t.Fatal(err)
	}
	if got, err := WebCertificate(file); err != nil || got != filepath.Join(dir, "cert.pem") {
		t.Errorf("the certificate is %q, %v", got, err)
	}
	address := serveWeb(t, healthy(), file)
	expect := func(path, user, password string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		r, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s as %q: %d, want %d", path, user, r.StatusCode, want)
		}
	}
	expect("/metrics", "prometheus", "fakepassword", 200)
	expect("/healthz", "prometheus", "fakepassword", 200)
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		expect(path, "", "", 401)
		expect(path, "prometheus", "another", 401)
		expect(path, "root", "fakepassword", 401)
	}
	if code, _, _ := get(t, "http://"+address+"/metrics", ""); code != 400 {
		t.Errorf("%d without TLS", code)
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "prometheus:", "scraper:")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	expect("/metrics", "prometheus", "fakepassword", 401)
	expect("/metrics", "scraper", "fakepassword", 200)
}

func TestCheckWebConfig(t *testing.T) {
	dir := t.TempDir()
	webFiles(t, dir)
	if err := CheckWebConfig(""); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"tls_server_config: {cert_file: none.pem, key_file: key.pem}": "none.pem",
		"tls_server_config: {cert_file: cert.pem}":                    "key",
		"basic_auth_users: {prometheus: secret}":                      "hash",
		"users: {}":                                                   "users",
	} {
		file := filepath.Join(dir, "bad.yml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckWebConfig(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := CheckWebConfig(filepath.Join(dir, "none.yml")); err == nil {
		t.Error("no error for a missing file")
	}
	if got, err := WebCertificate(filepath.Join(dir, "none.yml")); got != "" || err == nil {
		t.Errorf("a missing file has the certificate %q, %v", got, err)
	}
}

// TestOneAnswerPerConnection: a client of HTTP/2 that does not read its answers has one of them at
// a time, as with HTTP/1.1. Answers are long, and the limits are those of connections.
func TestOneAnswerPerConnection(t *testing.T) {
	dir := t.TempDir()
	webFiles(t, dir)
	file := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(file, []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", serveWeb(t, healthy(), file), &tls.Config{NextProtos: []string{"h2"}, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	var fields bytes.Buffer
	encoder := hpack.NewEncoder(&fields)
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	const requests = 20
	for i := range uint32(requests) {
		fields.Reset()
		for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/metrics"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: fields.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	answered, refused := 0, 0
	for answered+refused < requests {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch r := frame.(type) {
		case *http2.HeadersFrame:
			answered++
		case *http2.RSTStreamFrame:
			if r.ErrCode == http2.ErrCodeRefusedStream {
				refused++
			}
		}
	}
	if answered != 1 {
		t.Errorf("%d answers at a time", answered)
	}
}
