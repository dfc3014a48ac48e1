package console

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/controlplane/console/session"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

// TestBrowserThatDoesNotRead: writing to it ends after some time.
func TestBrowserThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		if _, err := (&timedConn{here, time.Minute}).Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestRequestWhileItEnds: the page must not take the end of rdmad for the end of its
// session alone, and ask for another one.
func TestRequestWhileItEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Listener: l, Sessions: session.New(nil), Places: connlimit.New(time.Now(), connlimit.Config{}), Logger: slog.New(slog.DiscardHandler)})
	ask := func(want string) {
		t.Helper()
		r, w := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/rdmad.v1.StatusService/GetStatus", strings.NewReader("{}")), httptest.NewRecorder()
		r.Header.Set("Origin", "http://127.0.0.1")
		r.Header.Set("Content-Type", "application/json")
		s.http.Handler.ServeHTTP(w, r)
		if text := w.Body.String(); !strings.Contains(text, want) {
			t.Errorf("%d %s, want %s", w.Code, text, want)
		}
	}
	ask("unauthenticated")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask("unavailable")
}

// TestClientsInTheLog: a line of the log is one line, whatever a client sent.
func TestClientsInTheLog(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Log
	s := New(Config{
		Listener: l, Sessions: session.New(nil), Places: connlimit.New(time.Now(), connlimit.Config{}),
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	s.http.ErrorLog.Print("http: TLS handshake error from 192.0.2.7:1: x\nlevel=ERROR msg=forged")
	if got := log.Lines("level=DEBUG"); len(got) != 1 || !strings.HasSuffix(got[0], `x\nlevel=ERROR msg=forged"`) {
		t.Errorf("%q", got)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAddressOfThisMachine: the address that rdmactl console prints has a name that a browser can
// ask for, rather that of this machine, if the certificate has several names or a wildcard.
func TestAddressOfThisMachine(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	label, _, _ := strings.Cut(machine, ".")
	dir := t.TempDir()
	ca, err := authtest.NewCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	for want, names := range map[string][]string{
		label + ".example.com": {"*.example.com", "another.example.com"},
		label + ".example.net": {"another.example.net", label + ".example.net"},
		"another.example.org":  {"another.example.org", "*.example.org"},
		"127.0.0.1":            nil, // each certificate has this address, too
	} {
		if err := ca.Issue("console", time.Hour, names...); err != nil {
			t.Fatal(err)
		}
		certs, err := auth.LoadCertificates(auth.Files{Cert: filepath.Join(dir, "console.pem"), Key: filepath.Join(dir, "console.key")}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Listener: l, Certificates: certs, Sessions: session.New(nil), Places: connlimit.New(time.Now(), connlimit.Config{}), Logger: slog.New(slog.DiscardHandler)})
		address, err := url.Parse(s.Address("x"))
		if err != nil || address.Hostname() != want || !s.named(address.Host) {
			t.Errorf("%q: %v, %v", names, address, err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOwnName: a wildcard for the machine's own domain is for this machine, also behind the name of
// the domain, as many certificates have both.
func TestOwnName(t *testing.T) {
	for _, c := range []struct{ machine, want string }{
		{"gw1.example.com", "gw1.example.com"},
		{"gw1.example.net", "example.com"},
		{"gw1", "example.com"},
		{"", "example.com"},
	} {
		if got := ownName(c.machine, []string{"example.com", "*.example.com"}); got != c.want {
			t.Errorf("%q: %s, not %s", c.machine, got, c.want)
		}
	}
}
