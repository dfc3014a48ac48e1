package interop

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmad/rdmad/dataplane/capture"
	"github.com/rdmad/rdmad/interop/guest"
)

// kernelDeviations are the rules that the kernel's implementation breaks, and
// docs/referee.md says why.
var kernelDeviations = []string{}

// bootJudged boots a guest. A referee watches each RPC-over-RDMA connection on
// its network card: a violation by rdmad fails the test, and one by the kernel
// unless it is known.
func bootJudged(t testing.TB, o guest.Options) *guest.Guest {
	t.Helper()
	wire := filepath.Join(t.TempDir(), "wire")
	if err := syscall.Mkfifo(wire, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(wire, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Without a writer the pipe would end before QEMU has opened it.
	until, err := os.OpenFile(wire, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var from io.Reader = in
	if o.Capture != "" {
		copied, err := os.Create(o.Capture)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { copied.Close() })
		from = io.TeeReader(in, copied)
	}
	o.Capture = wire
	type verdict struct {
		report *capture.Report
		err    error
	}
	done := make(chan verdict, 1)
	go func() {
		report, err := capture.Check(context.Background(), from, capture.Options{})
		_, _ = io.Copy(io.Discard, from) // QEMU must not wait
		done <- verdict{report, err}
	}()
	t.Cleanup(func() { // when the guest has ended
		v := <-done
		in.Close()
		// QEMU is killed, within a packet or not.
		if v.err != nil && !errors.Is(v.err, io.ErrUnexpectedEOF) {
			t.Errorf("the guest's wire: %v", v.err)
		}
		if v.report != nil {
			judgeReport(t, v.report)
		}
	})
	g := guest.Boot(t, o)
	until.Close()
	return g
}

// judgeReport fails the test for what a referee found.
func judgeReport(t testing.TB, r *capture.Report) {
	t.Helper()
	var calls uint64
	for _, c := range r.Connections {
		calls += c.Calls + c.ReverseCalls
		if c.GivenUp != "" {
			t.Errorf("the referee gave up a connection from %s to %s: %s", c.Peer, c.Server, c.GivenUp)
		}
		for _, v := range c.Violations {
			from := c.Peer
			if v.Direction == "to_client" {
				from = c.Server
			}
			if strings.HasPrefix(from, guestAddress+":") && slices.Contains(kernelDeviations, v.Rule) {
				continue
			}
			t.Errorf("%s to %s: by %s, %v", c.Peer, c.Server, from, &v)
		}
	}
	for _, n := range r.NotFollowed {
		t.Errorf("%s to %s: not followed: %s", n.Client, n.Server, n.Reason)
	}
	t.Logf("referee: %d connections, %d calls, %d violations", len(r.Connections), calls, r.Violations)
}
