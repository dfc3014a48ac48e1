package cli

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackagedSocketIsFound when nothing names a control plane, and the socket is
// there.
func TestPackagedSocketIsFound(t *testing.T) {
	t.Setenv("RDMACTL_ADDR", "")
	t.Setenv("RDMACTL_CONTEXT", "")
	t.Setenv("RDMACTL_CONFIG", filepath.Join(t.TempDir(), "none.yaml"))
	path := filepath.Join(t.TempDir(), "control.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		name, socket string
		args         []string
		addr, from   string
	}{
		{"socket", path, nil, "unix://" + path, "packaged socket"},
		{"no socket", filepath.Join(t.TempDir(), "none"), nil, defaultAddr, "default"},
		{"another file", filepath.Dir(path), nil, defaultAddr, "default"},
		{"an address", path, []string{"--addr", "nas:1"}, "nas:1", "--addr"},
		{"TLS", path, []string{"--tls-cert", "c", "--tls-key", "k"}, defaultAddr, "default"},
	} {
		a := &app{socket: c.socket}
		if err := newRoot(a).ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := a.locate()
		if err != nil || got.addr != c.addr || got.from != c.from {
			t.Errorf("%s: %s from %s, %v; want %s from %s", c.name, got.addr, got.from, err, c.addr, c.from)
		}
	}
}

// TestContextWithoutHome: where no file of contexts can be, as in a service, that is why there is no such context.
func TestContextWithoutHome(t *testing.T) {
	for _, name := range []string{"RDMACTL_CONFIG", "XDG_CONFIG_HOME", "HOME"} {
		t.Setenv(name, "")
	}
	for args, want := range map[string]string{
		"config show --context nas1":      "rdmactl: contexts: neither $XDG_CONFIG_HOME nor $HOME are defined: set RDMACTL_CONFIG\n",
		"config show --context nas1,nas2": "rdmactl: --context: contexts: neither $XDG_CONFIG_HOME nor $HOME are defined: set RDMACTL_CONFIG\n",
		"config show --addr nas1:20050":   "",
	} {
		var stderr strings.Builder
		if Run(t.Context(), "test", strings.Fields(args), io.Discard, &stderr); stderr.String() != want {
			t.Errorf("%s: %s", args, stderr.String())
		}
	}
}

// TestTargets: gRPC, which reads its targets as URLs, gets addresses as they are.
func TestTargets(t *testing.T) {
	for _, addr := range []string{"[fe80::1%eth0]:20050", "nas:20050", "unix:///run/a b/100%?#%20.sock"} {
		a := &app{where: whereFlags{addr: addr}}
		conn, err := a.dial()
		if err != nil {
			t.Fatal(err)
		}
		target, err := url.Parse(conn.Target())
		if err != nil || "/"+strings.TrimPrefix(addr, "unix:///") != target.Path {
			t.Errorf("%s: target %s, %v", addr, conn.Target(), err)
		}
		conn.Close()
	}
}
