package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/planetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// control serves a plane with one connection and returns how to end it.
func control(t *testing.T) (plane *planetest.Plane, addr string, stop func()) {
	t.Helper()
	plane = &planetest.Plane{}
	c, err := controlplane.New(t.Context(), controlplane.Config{Dataplane: plane, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	plane.Use(c.Resolver())
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	served := make(chan error, 1)
	go func() { served <- c.Serve() }()
	return plane, c.Addr(), func() {
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// watching is a `connections watch` in progress.
type watching struct {
	lines  *bufio.Scanner
	exit   chan int
	stderr strings.Builder
	cancel context.CancelFunc
}

func watch(t *testing.T, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	v := &watching{lines: bufio.NewScanner(r), exit: make(chan int, 1), cancel: cancel}
	go func() {
		v.exit <- Run(ctx, "test", append([]string{"connections", "watch"}, args...), w, &v.stderr)
		w.Close()
	}()
	return v
}

func (v *watching) line(t *testing.T) string {
	t.Helper()
	if !v.lines.Scan() {
		t.Fatalf("the output ended: %v", v.lines.Err())
	}
	return v.lines.Text()
}

func TestWatchPrintsEventsUntilInterrupted(t *testing.T) {
	plane, addr, stop := control(t)
	defer stop()
	v := watch(t, "--addr", addr)
	var got []string
	got = append(got, v.line(t))
	plane.Connect(planetest.Peer{ID: "2", Listener: "nfs", Address: "192.0.2.8:1002", NoInvalidation: true})
	got = append(got, v.line(t))
	plane.Disconnect("2", "hung up\x1b[2J")
	got = append(got, v.line(t))
	for i, want := range []string{
		"existing  connection 1  nfs  192.0.2.7:1001  inline send 4096, credits 64, remote invalidation on",
		"up        connection 2  nfs  192.0.2.8:1002  inline send 4096, credits 64, remote invalidation off",
		"down      connection 2  nfs  192.0.2.8:1002  hung up\ufffd[2J",
	} {
		if _, rest, _ := strings.Cut(got[i], "  "); rest != want {
			t.Errorf("got  %s\nwant %s", rest, want)
		}
	}
	v.cancel()
	if code := <-v.exit; code != 0 || v.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, v.stderr.String())
	}
}

func TestWatchJSONIsOneObjectALine(t *testing.T) {
	plane, addr, stop := control(t)
	v := watch(t, "--addr", addr, "-o", "json")
	var seen []string
	for range 2 {
		var e struct {
			Type       string
			Time       string
			Connection struct {
				ID    string
				Calls float64
			}
			Reason string
		}
		if err := json.Unmarshal([]byte(v.line(t)), &e); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprintf("%s %s %v %q", e.Type, e.Connection.ID, e.Connection.Calls, e.Reason))
		if len(seen) == 1 {
			plane.Disconnect("1", "gone")
		}
	}
	if got, want := strings.Join(seen, "|"), `EXISTING 1 0 ""|DOWN 1 0 "gone"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	stop()
	if code := <-v.exit; code != 1 || v.stderr.String() != "rdmactl: rdmad is shutting down\n" {
		t.Errorf("exit code %d, stderr %q", code, v.stderr.String())
	}
	v.cancel()
}
