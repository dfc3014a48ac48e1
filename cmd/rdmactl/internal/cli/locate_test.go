package cli

import (
	"net"
	"path/filepath"
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
