package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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
