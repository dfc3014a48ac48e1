package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/creack/pty"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// restarting is an rdmad that ends in the middle of its first profile.
type restarting struct {
	rdmadv1.UnimplementedProcessServiceServer
	profiles atomic.Int32
}

func (r *restarting) Profile(_ *rdmadv1.ProfileRequest, stream grpc.ServerStreamingServer[rdmadv1.ProfileResponse]) error {
	if err := stream.Send(&rdmadv1.ProfileResponse{Data: []byte("half")}); err != nil || r.profiles.Add(1) > 1 {
		return err
	}
	return status.Error(codes.Unavailable, "rdmad is shutting down")
}

// TestProfileOfOneProcess: a profile that rdmad did not finish is an error. That of the rdmad after the restart does not
// follow it in the file.
func TestProfileOfOneProcess(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s, served := grpc.NewServer(), make(chan error, 1)
	rdmadv1.RegisterProcessServiceServer(s, &restarting{})
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Stop()
		<-served
	}()
	name := filepath.Join(t.TempDir(), "trace.out")
	var out strings.Builder
	code := Run(context.Background(), "test", []string{"debug", "pprof", "trace", "-w", name, "--addr", "unix://" + l.Addr().String()}, &out, &out)
	text, err := os.ReadFile(name)
	if code != exitFailed || out.String() != "rdmactl: rdmad is shutting down\n" || err != nil || string(text) != "half" {
		t.Errorf("exit code %d, %s; the file has %q, %v", code, out.String(), text, err)
	}
}

// TestBinaryToTerminal: a profile and a capture do not go to a terminal.
func TestBinaryToTerminal(t *testing.T) {
	screen, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	defer program.Close()
	for command, what := range map[string]string{"debug pprof heap": "profile", "capture": "capture"} {
		var errs strings.Builder
		code := Run(t.Context(), "test", append(strings.Fields(command), "-w", "-", "--addr", "127.0.0.1:1"), program, &errs)
		if code != exitUsage || !strings.HasPrefix(errs.String(), "rdmactl: a "+what+" is binary, and standard output is a terminal: use -w FILE") {
			t.Errorf("%s: %d, %s", command, code, errs.String())
		}
	}
}
