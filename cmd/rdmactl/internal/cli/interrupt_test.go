package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/dataplane/capture"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// onWrite calls itself when something is written.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// TestInterruptedWhileReading: an interruption also ends a command that waits for standard input.
func TestInterruptedWhileReading(t *testing.T) {
	in, typing := io.Pipe() // nobody types
	defer typing.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	a := &app{stderr: onWrite(interrupt)} // at the question
	advice := &rdmadv1.AdviseSettingsResponse{Advice: []*rdmadv1.Advice{{Assignments: []string{"credits.max=9"}}}}
	err := a.applyAdvice(ctx, advice, &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{}}, false, in)
	if err == nil || err.Error() != "nothing changed: interrupted" {
		t.Errorf("a question: %v", err)
	}
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetIn(io.MultiReader(strings.NewReader("limits: {connections: 1"), in))
	if text, err := a.readInput(cmd, dash, "configuration", maxConfiguration); err == nil || err.Error() != "interrupted" {
		t.Errorf("a file: %q, %v", text, err)
	}
}

// TestInterruptedPipe: an interruption also ends a command that waits until a named pipe has a writer, or until the
// writer writes.
func TestInterruptedPipe(t *testing.T) {
	var w *os.File
	t.Cleanup(func() { w.Close() }) // after the pipe is gone: then none of what was interrupted still waits for its writer
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	cmd, a := &cobra.Command{}, &app{stderr: io.Discard}
	cmd.SetContext(ctx)
	ended := make(chan error, 2)
	go func() {
		_, err := a.readInput(cmd, pipe, "configuration", maxConfiguration)
		ended <- err
	}()
	go func() { ended <- a.checkCapture(ctx, pipe, capture.Options{}) }()
	interrupt()
	for range 2 {
		if err := <-ended; err == nil || err.Error() != "interrupted" {
			t.Errorf("without a writer: %v", err)
		}
	}
	ctx, interrupt = context.WithCancel(t.Context())
	cmd.SetContext(ctx)
	go func() {
		_, err := a.readInput(cmd, pipe, "configuration", maxConfiguration)
		ended <- err
	}()
	var err error
	if w, err = os.OpenFile(pipe, os.O_WRONLY, 0); err != nil { // waits for a reader
		t.Fatal(err)
	}
	interrupt()
	if err := <-ended; err == nil || err.Error() != "interrupted" {
		t.Errorf("without anything written: %v", err)
	}
}
