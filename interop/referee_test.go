package interop

import (
	"bufio"
	"bytes"
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

// kernelDeviations are the rules that the kernel's implementation breaks.
// docs/referee.md says where and why.
var kernelDeviations = []string{
	"invalidate.not-agreed", // its server says that it takes no remote invalidation, and uses it
}

// breaker returns the address of the end that broke a rule.
func breaker(c *capture.Connection, v *capture.Violation) string {
	if v.Direction == "to_client" {
		return c.Server
	}
	return c.Peer
}

// otherPrograms is given with onPurpose where connections are of programs such
// as rping, which the referee can't judge.
const otherPrograms = "its messages are not those of RPC-over-RDMA"

// killed is given with onPurpose where rdmad is killed, perhaps just after the kernel has
// connected to it.
const killed = "the capture has no answer to the MPA request"

// rejected is the reason why a connection that never came up is not followed.
const rejected = "the server rejected the connection"

// bootJudged boots a guest. A referee watches each RPC-over-RDMA connection on
// its network card: a violation by rdmad fails the test, and one by the kernel
// unless it is known. A test's own peers may break the rules onPurpose.
func bootJudged(t testing.TB, o guest.Options, onPurpose ...string) *guest.Guest {
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
	from := io.Reader(&lastCapture{in: bufio.NewReader(in)})
	if o.Capture != "" {
		copied, err := os.Create(o.Capture)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { copied.Close() })
		from = io.TeeReader(from, copied)
	}
	o.Capture = wire
	type verdict struct {
		report *capture.Report
		err    error
	}
	done := make(chan verdict, 1)
	go func() {
		report, err := capture.Check(context.Background(), from, capture.Options{
			Expected: func(c *capture.Connection, v *capture.Violation) bool {
				if strings.HasPrefix(breaker(c, v), guestAddress+":") {
					return slices.Contains(kernelDeviations, v.Rule)
				}
				return slices.Contains(onPurpose, v.Rule)
			},
		})
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
			judgeReport(t, v.report, onPurpose...)
		}
	})
	defer until.Close() // also if Boot ends the test: its end waits for the pipe's
	return guest.Boot(t, o)
}

// lastCapture leaves out captures without a packet, except the last: guest.Start
// starts QEMU again if the emulated processor failed at boot, and each QEMU
// writes the header of a file.
type lastCapture struct {
	in    *bufio.Reader
	begun bool
}

func (c *lastCapture) Read(b []byte) (int, error) {
	const header = 24 // of a pcap file
	for !c.begun {
		first, err := c.in.Peek(2 * header)
		c.begun = err != nil || !bytes.Equal(first[:header], first[header:])
		if !c.begun {
			_, _ = c.in.Discard(header) // it was read before
		}
	}
	return c.in.Read(b)
}

// TestLastCapture: the referee reads what a second QEMU captures after one that
// failed at boot.
func TestLastCapture(t *testing.T) {
	header := append([]byte{0xd4, 0xc3, 0xb2, 0xa1}, make([]byte, 20)...)
	packet := slices.Repeat([]byte{1}, 100)
	for _, tt := range []struct{ written, read [][]byte }{
		{[][]byte{header, packet}, [][]byte{header, packet}},
		{[][]byte{header, header, header, packet, header}, [][]byte{header, packet, header}},
		{[][]byte{header, header}, [][]byte{header}},
		{[][]byte{header}, [][]byte{header}},
		{nil, nil},
	} {
		in, out := io.Pipe()
		go func() {
			for _, b := range tt.written {
				_, _ = out.Write(b) // a reader that fails ends the test
			}
			out.Close()
		}()
		got, err := io.ReadAll(&lastCapture{in: bufio.NewReader(in)})
		if want := slices.Concat(tt.read...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %x, %v; want %x", got, err, want)
		}
	}
}

// refereed lets the referee judge a capture without traffic of the kernel.
func refereed(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	report, err := capture.Check(t.Context(), f, capture.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Connections) == 0 || report.Truncated {
		t.Errorf("%d connections, truncated %v", len(report.Connections), report.Truncated)
	}
	judgeReport(t, report)
}

// judgeReport fails the test for what a referee found, and for connections that
// it did not follow to their end.
func judgeReport(t testing.TB, r *capture.Report, onPurpose ...string) {
	t.Helper()
	var calls, reverse uint64
	for _, c := range r.Connections {
		calls += c.Calls
		reverse += c.ReverseCalls
		if c.GivenUp != "" && (c.Calls > 0 || !slices.Contains(onPurpose, c.GivenUp)) {
			t.Errorf("the referee gave up a connection from %s to %s: %s", c.Peer, c.Server, c.GivenUp)
		}
		for i := range c.Violations {
			v := &c.Violations[i]
			t.Errorf("%s to %s: by %s, %v", c.Peer, c.Server, breaker(c, v), v)
		}
	}
	for _, n := range r.NotFollowed {
		if n.Reason == rejected || slices.Contains(onPurpose, n.Reason) {
			continue // there was nothing to judge
		}
		t.Errorf("%s to %s: not followed: %s", n.Client, n.Server, n.Reason)
	}
	t.Logf("referee: %d connections, %d calls, %d callbacks, %d violations", len(r.Connections), calls, reverse, r.Violations)
}
