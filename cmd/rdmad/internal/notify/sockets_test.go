package notify

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// socketsOf makes TestSockets' child print the sockets that it was given.
const socketsOf = "RDMAD_TEST_SOCKETS"

// TestSockets passes descriptors to a child as a service manager does.
func TestSockets(t *testing.T) {
	if os.Getenv(socketsOf) != "" {
		tellSockets()
		return
	}
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		files []*os.File
		want  string
	}{
		{[]*os.File{socket}, "[" + path + "] <nil> again [] <nil>"},
		{[]*os.File{socket, null}, `[] socket "two" from the service manager: `},
	} {
		// LISTEN_PID is the child's own number, which the shell knows.
		cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" -test.run='^TestSockets$'`, os.Args[0])
		cmd.ExtraFiles = c.files
		cmd.Env = append(os.Environ(), socketsOf+"=1", "LISTEN_FDNAMES=one:two", fmt.Sprintf("LISTEN_FDS=%d", len(c.files)))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%d descriptors: got %s, %v, want %s", len(c.files), out, err, c.want)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the service manager's socket is gone: %v", err)
	}
}

func tellSockets() {
	all, err := Sockets()
	paths := []string{}
	for _, l := range all {
		paths = append(paths, l.Addr().String())
		l.Close()
	}
	again, againErr := Sockets()
	fmt.Println(paths, err, "again", again, againErr)
}
