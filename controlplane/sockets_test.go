package controlplane_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/planetest"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// passed is a socket as a service manager passes it: its file stays when it
// is closed.
func passed(t *testing.T, path string) net.Listener {
	t.Helper()
	l := have(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	f := have(l.File())(t)
	l.Close()
	defer f.Close()
	taken := have(net.FileListener(f))(t)
	return taken
}

// TestPassedSocket serves on a socket of the service manager: clients that
// came before are answered, and the kernel says who they are.
func TestPassedSocket(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "control"), filepath.Join(dir, "other")
	sockets := []net.Listener{passed(t, other), passed(t, path)}
	viewer := auth.Viewer
	plane := &planetest.Plane{}
	var log bytes.Buffer
	c, client := serve(t, controlplane.Config{
		Dataplane: plane, Manager: planetest.NewManager(plane), Listen: "unix://" + dir + "/./control", Sockets: sockets,
		Access: controlplane.Access{Rules: auth.Rules{Default: &viewer}},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if c.Addr() != "unix://"+path {
		t.Errorf("listens on %s", c.Addr())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the socket's mode is %v, %v, and viewers can't open it", info.Mode(), err)
	}
	// An administrator by its user, which is rdmad's.
	if _, err := rdmadv1.NewListenerServiceClient(client).RemoveListener(t.Context(),
		&rdmadv1.RemoveListenerRequest{Name: "none"}); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("an administrator's request: %v", err)
	}
	if want := "socket=unix://" + other; !strings.Contains(log.String(), want) {
		t.Errorf("no %s in the log:\n%s", want, &log)
	}
	if _, err := net.Dial("unix", other); err == nil {
		t.Error("the socket that nobody named takes clients")
	}
}

// TestPassedSocketStays finds it there after an end, for the next rdmad.
func TestPassedSocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	c, err := controlplane.New(t.Context(), controlplane.Config{
		Dataplane: &planetest.Plane{}, Listen: "unix://" + path, Sockets: []net.Listener{passed(t, path)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestPassedSocketsClosed leaves none open after a bad configuration.
func TestPassedSocketsClosed(t *testing.T) {
	l := passed(t, filepath.Join(t.TempDir(), "control"))
	_, err := controlplane.New(t.Context(), controlplane.Config{
		Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0", Sockets: []net.Listener{l},
		Access: controlplane.Access{Rules: auth.Rules{Group: "there-is-no-such-group"}},
	})
	if err == nil {
		t.Fatal("a group that isn't there was taken")
	}
	if err := l.Close(); err == nil {
		t.Error("the socket was left open")
	}
}
