package cli

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/dataplane/conditions"
)

// seen matches what keep says about a restart.
var seen = regexp.MustCompile(`^rdmactl: .*: trying again until you interrupt
rdmactl: rdmad at unix:///\S+ is back: nothing was seen from \d\d:\d\d:\d\d to \d\d:\d\d:\d\d
`)

// TestStreamsContinueAfterARestart of rdmad, and say since when they saw nothing.
func TestStreamsContinueAfterARestart(t *testing.T) {
	for _, c := range []struct {
		args string
		line string // of each rdmad
	}{
		{"connections watch", "connection 1"},
		{"connections watch -o json", `"EXISTING"`},
		{"conditions watch", "upstream/nas"},
	} {
		addr := "unix://" + filepath.Join(t.TempDir(), "s")
		known := conditions.NewRegistry()
		known.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamAnswers})
		_, _, stop := controlAt(t, addr, known)
		v := watch(t, append(strings.Fields(c.args), "--addr", addr)...)
		for restarts := range 2 {
			if got := v.line(t); !strings.Contains(got, c.line) {
				t.Errorf("%s: after %d restarts: %s", c.args, restarts, got)
			}
			stop()
			_, _, stop = controlAt(t, addr, known)
		}
		if got := v.line(t); !strings.Contains(got, c.line) {
			t.Errorf("%s: at the end: %s", c.args, got)
		}
		v.cancel()
		if code := <-v.exit; code != 0 || !seen.MatchString(v.stderr.String()) {
			t.Errorf("%s: exit code %d, stderr %q", c.args, code, v.stderr.String())
		}
		stop()
	}
}

// TestWatchFailsWithoutAFirstAnswer: only a stream that had begun is continued.
func TestWatchFailsWithoutAFirstAnswer(t *testing.T) {
	for _, command := range []string{"connections watch", "conditions watch", "settings watch", "trace", "capture -w x.pcapng"} {
		v := watch(t, append(strings.Fields(command), "--addr", "unix://"+filepath.Join(t.TempDir(), "none"))...)
		if code := <-v.exit; code != 1 || strings.Contains(v.stderr.String(), "trying again") {
			t.Errorf("%s: exit code %d, stderr %q", command, code, v.stderr.String())
		}
		v.cancel()
	}
}

// TestInterruptedAsRdmadGoes: an interruption that comes as the stream ends is the end, and no
// error of the stream.
func TestInterruptedAsRdmadGoes(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var stderr strings.Builder
	a := &app{stderr: &stderr, socket: filepath.Join(t.TempDir(), "none"), retry: time.Hour}
	err := a.keep(ctx, func(_ *grpc.ClientConn, begun func()) error {
		begun()
		interrupt()
		return status.Error(codes.Unavailable, "rdmad is shutting down")
	})
	if !ended(ctx, err) || stderr.String() != "" {
		t.Errorf("%v, stderr %q", err, stderr.String())
	}
}
