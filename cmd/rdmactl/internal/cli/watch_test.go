package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// control serves a plane with one connection and returns how to end it.
func control(t *testing.T) (plane *planetest.Plane, addr string, stop func()) {
	t.Helper()
	return controlOf(t, conditions.NewRegistry())
}

func controlOf(t *testing.T, known *conditions.Registry) (plane *planetest.Plane, addr string, stop func()) {
	t.Helper()
	return controlAt(t, "127.0.0.1:0", known)
}

func controlAt(t *testing.T, address string, known *conditions.Registry) (plane *planetest.Plane, addr string, stop func()) {
	t.Helper()
	plane = &planetest.Plane{}
	c, err := controlplane.New(t.Context(), controlplane.Config{Dataplane: plane, Conditions: known, Listen: address})
	if err != nil {
		t.Fatal(err)
	}
	plane.Use(c.Settings.Resolve)
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

// watching is a watch in progress.
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
	a := &app{version: "test", stdout: w, stderr: &v.stderr, silent: time.Second, retry: time.Millisecond}
	go func() {
		v.exit <- a.run(ctx, args)
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
	v := watch(t, "connections", "watch", "--addr", addr)
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

func TestConditionsWatchPrintsChangesUntilInterrupted(t *testing.T) {
	known := conditions.NewRegistry()
	known.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamAnswers})
	_, addr, stop := controlOf(t, known)
	defer stop()
	v := watch(t, "conditions", "watch", "--addr", addr)
	var got []string
	got = append(got, v.line(t))
	known.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamGone, Message: "refused\x1b[2J"})
	got = append(got, v.line(t))
	known.Remove(conditions.Upstream, "nas")
	got = append(got, v.line(t))
	for i, want := range []string{
		"OK        upstream/nas  Answers  ",
		"FAILED    upstream/nas  Unreachable  refused\ufffd[2J",
		"GONE      upstream/nas  Unreachable  refused\ufffd[2J",
	} {
		at, rest, _ := strings.Cut(got[i], "  ")
		if strings.TrimSpace(rest) != strings.TrimSpace(want) {
			t.Errorf("got  %s\nwant %s", rest, want)
		}
		if _, err := time.Parse(time.DateTime, at); err != nil { // a condition may be days old
			t.Error(err)
		}
	}
	v.cancel()
	if code := <-v.exit; code != 0 || v.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, v.stderr.String())
	}
}

func TestWatchJSONIsOneObjectALine(t *testing.T) {
	plane, addr, stop := control(t)
	v := watch(t, "connections", "watch", "--addr", addr, "-o", "json")
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
	v.cancel()
	if code := <-v.exit; code != 0 {
		t.Errorf("exit code %d, stderr %q", code, v.stderr.String())
	}
}

// change runs a command that has to work.
func change(t *testing.T, args ...string) {
	t.Helper()
	var out strings.Builder
	if code := Run(context.Background(), "test", args, &out, &out); code != 0 {
		t.Fatalf("%v: exit code %d, %s", args, code, out.String())
	}
}

func TestSettingsWatchPrintsRevisionsUntilInterrupted(t *testing.T) {
	_, addr, stop := control(t)
	defer stop()
	value := 33 // never the same twice: that would be no revision
	for _, c := range []struct{ format, first, second string }{
		{"table", `revision \d+  anonymous  set  unconfirmed  global  .*  try`, `revision \d+  anonymous  set  kept  global  .*  try`},
		{"json", `^{"revision":{"revision":\d+,.*"state":"UNCONFIRMED",.*"comment":"try","restored":0}}$`, `"state":"KEPT"`},
	} {
		v := watch(t, "settings", "watch", "--addr", addr, "-o", c.format)
		lines := make(chan string, 100)
		go func() {
			defer close(lines)
			for v.lines.Scan() {
				lines <- v.lines.Text()
			}
		}()
		// What is changed before the stream is there is not in it; then another
		// value has to do, as what stays is not shown.
		for seen := false; !seen; value++ {
			change(t, "settings", "set", fmt.Sprintf("credits.max=%d", value), "--comment", "try", "--confirm-within", "1h", "--addr", addr)
			seen = appears(lines, c.first, time.After(time.Second/5))
			change(t, "settings", "confirm", "--addr", addr)
		}
		if !appears(lines, c.second, nil) {
			t.Errorf("%s: the revision is not seen confirmed", c.format)
		}
		v.cancel()
		if code := <-v.exit; code != 0 || v.stderr.String() != "" {
			t.Errorf("%s: exit code %d, stderr %q", c.format, code, v.stderr.String())
		}
	}
}

// appears waits for a line that matches, until the lines end or stop comes.
func appears(lines <-chan string, pattern string, stop <-chan time.Time) bool {
	match := regexp.MustCompile(pattern)
	for {
		select {
		case line, ok := <-lines:
			if !ok || match.MatchString(line) {
				return ok
			}
		case <-stop:
			return false
		}
	}
}

// TestWaitingIsSaidOnATerminal, and taken away again.
func TestWaitingIsSaidOnATerminal(t *testing.T) {
	screen, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	defer program.Close()
	a := &app{stderr: program, addr: "here:1", silent: time.Millisecond}
	for _, c := range []struct {
		tell teller
		want string
	}{
		{nil, "waiting for rdmad at here:1, "},
		{func(context.Context, *grpc.ClientConn) string { return "draining connection 3" }, "draining connection 3, "},
	} {
		end := a.waiting(t.Context(), nil, c.tell)
		seen, buf := "", make([]byte, 256)
		for !strings.Contains(seen, c.want) {
			n, err := screen.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			seen += string(buf[:n])
		}
		end()
	}
}
