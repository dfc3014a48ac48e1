package controlplane

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/auth"
)

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	alive, err := net.Listen("unix", filepath.Join(dir, "alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	const closed = ": without TLS the control plane listens on the loopback or a Unix socket only"
	for address, want := range map[string]string{
		"0.0.0.0:0":                     "control.listen 0.0.0.0:0" + closed,
		":20050":                        "control.listen :20050" + closed,
		"[::]:0":                        "control.listen [::]:0" + closed,
		"192.0.2.1:20050":               "control.listen 192.0.2.1:20050" + closed,
		"nonsense":                      `control.listen "nonsense" is neither host:port nor unix:///path`,
		"":                              `control.listen "" is neither host:port nor unix:///path`,
		busy.Addr().String():            "control.listen " + busy.Addr().String() + ": address already in use",
		"unix://relative":               "control.listen unix://relative: the path must be absolute",
		"unix://" + file:                "control.listen unix://" + file + ": a file that is no socket is in the way",
		"unix://" + dir + "/alive":      "control.listen unix://" + dir + "/alive: address already in use",
		"unix://" + dir + "/none/there": "control.listen unix://" + dir + "/none/there: the directory " + dir + "/none does not exist",
	} {
		l, err := listen(t.Context(), address, false, new(auth.Policy))
		if err == nil {
			l.Close()
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", address, err, want)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "keep me" {
		t.Errorf("the file in the way: %q, %v", kept, err)
	}
}

// TestTryUnix: a socket that can't be made is found, and nothing stays behind.
func TestTryUnix(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	alive, err := net.Listen("unix", filepath.Join(dir, "alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	for path, want := range map[string]string{
		"/none/there": "/none does not exist",
		"/file":       "a file that is no socket is in the way",
		"/alive":      "", // it may be the service manager's
		"/new":        "",
	} {
		got := ""
		if err := TryUnix(t.Context(), "unix://"+dir+path, auth.Rules{}); err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v stay", all, err)
	}
}

func TestListenOnLoopback(t *testing.T) {
	for _, given := range []string{"127.0.0.1:0", "127.8.9.10:0", "localhost:0"} {
		l, err := listen(t.Context(), given, false, new(auth.Policy))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := address(l.Addr()); !strings.HasPrefix(got, "127.") && !strings.HasPrefix(got, "[::1]:") {
			t.Errorf("%s: listens on %s", given, got)
		}
		l.Close()
	}
}

func TestListenOnUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	// Left behind by a process that died.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := listen(t.Context(), "unix://"+path, false, new(auth.Policy))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode: %v, %v", info.Mode(), err)
	}
	if got := address(l.Addr()); got != "unix://"+path {
		t.Errorf("listens on %s", got)
	}
	l.Close()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays behind: %v", err)
	}
}
