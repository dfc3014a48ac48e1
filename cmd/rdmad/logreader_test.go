package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/interop/child"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestLogReader: with a standard error that takes nothing, such as a terminal that is stopped, or
// whose reader has ended, rdmad starts, an operator gets in, and it ends in order.
func TestLogReader(t *testing.T) {
	t.Run("stopped", func(t *testing.T) {
		read, write := pipe(t)
		defer read.Close()
		const size = 4096
		have(unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, size))(t)
		have(write.Write(make([]byte, size)))(t)
		runWith(t, write)
	})
	t.Run("gone", func(t *testing.T) {
		read, write := pipe(t)
		must(t, read.Close())
		runWith(t, write)
	})
}

func pipe(t *testing.T) (read, write *os.File) {
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { write.Close() })
	return read, write
}

// runWith runs rdmad with a standard error, asks for its status, and ends it.
func runWith(t *testing.T, stderr *os.File) {
	r := newRig(t)
	socket := filepath.Join(r.dir, "control")
	cmd := exec.Command(have(exec.LookPath("rdmad"))(t), "--config", "rdmad.yaml", "--set", "control.listen=unix://"+socket)
	cmd.Dir, cmd.Stderr = r.dir, stderr
	p := have(child.Start(cmd))(t)
	defer p.Signal(syscall.SIGKILL)
	conn := have(grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	have(rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, &rdmadv1.GetStatusRequest{}, grpc.WaitForReady(true)))(t)
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
		must(t, p.Wait())
	case <-time.After(startTimeout):
		t.Error("rdmad does not end")
	}
}
