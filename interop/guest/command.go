package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// ErrDied means that the guest ended while a test used it.
var ErrDied = errors.New("guest: the guest died")

// outputLimit is how many bytes are kept of each output stream, from its start.
const outputLimit = 16 << 20

// Result is the output and the exit code of a script.
type Result struct {
	Stdout, Stderr string
	Code           int // as a shell's $?
}

// Command is a script that runs in the guest.
type Command struct {
	session *session
	id      uint32
	script  string
	done    chan struct{}
	printed chan struct{} // one token if there is new output

	mu     sync.Mutex
	stdout strings.Builder
	stderr strings.Builder
	code   int
	err    error
}

func newCommand(s *session, id uint32, script string) *Command {
	return &Command{session: s, id: id, script: script, done: make(chan struct{}), printed: make(chan struct{}, 1)}
}

func (c *Command) receive(frame agentwire.Frame) {
	switch frame.Kind {
	case agentwire.Stdout:
		c.keep(&c.stdout, frame.Payload)
	case agentwire.Stderr:
		c.keep(&c.stderr, frame.Payload)
	case agentwire.Exit:
		var status agentwire.ExitStatus
		err := json.Unmarshal(frame.Payload, &status)
		if err == nil && status.Error != "" {
			err = fmt.Errorf("guest: the agent could not run the script: %s", status.Error)
		}
		c.finish(status, err)
	}
}

func (c *Command) keep(b *strings.Builder, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.Write(p[:min(len(p), outputLimit-b.Len())])
	select {
	case c.printed <- struct{}{}:
	default: // the watcher has not yet seen the previous token
	}
}

func (c *Command) finish(status agentwire.ExitStatus, err error) {
	c.mu.Lock()
	c.code, c.err = status.Code, err
	c.mu.Unlock()
	close(c.done)
}

// Output returns the output of the script so far.
func (c *Command) Output() (stdout, stderr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stdout.String(), c.stderr.String()
}

// late gives the guest up if ctx has ended because its time is over. It returns
// why the wait has ended.
func (c *Command) late(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	stdout, stderr := c.Output()
	return fmt.Errorf("%w: %w", ctx.Err(), c.session.giveUp("a script is late: "+firstLine(c.script), fmt.Sprintf(
		"script:\n%s\nend of stdout:\n%s\nend of stderr:\n%s", c.script, tail(stdout), tail(stderr))))
}

// firstLine returns the beginning of a script.
func firstLine(script string) string {
	const most = 100
	line, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(script, "set -e")), "\n")
	return line[:min(len(line), most)]
}

// tail returns the end of a long text.
func tail(s string) string {
	const most = 4 << 10
	return s[max(0, len(s)-most):]
}

// Watch waits until enough accepts the script's standard output so far. It
// fails if the script or ctx ends first. If ctx's deadline has passed, the guest
// is given up. Only one goroutine may watch at a time.
func (c *Command) Watch(ctx context.Context, enough func(stdout string) bool) error {
	for {
		stdout, stderr := c.Output()
		if enough(stdout) {
			return nil
		}
		select {
		case <-c.printed:
		case <-ctx.Done():
			return fmt.Errorf("guest: waiting for a script's output: %w", c.late(ctx))
		case <-c.done:
			if stdout, _ = c.Output(); enough(stdout) {
				return nil
			}
			return errors.Join(fmt.Errorf("guest: the script ended after printing %q, %q", stdout, stderr), c.failure())
		}
	}
}

// failure returns why a script that has ended did not run to its end, or nil.
func (c *Command) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done returns a channel that is closed when the script has ended.
func (c *Command) Done() <-chan struct{} { return c.done }

// Kill kills the script and its children. The caller must still call Wait.
func (c *Command) Kill() { c.session.kill(c.id) }

// Wait waits until the script has ended. If ctx ends first, Wait kills the
// script and returns ctx's error with the output so far. If ctx's deadline has
// passed, the guest is given up. A nonzero exit code is no error.
func (c *Command) Wait(ctx context.Context) (Result, error) {
	var interrupted error
	select {
	case <-c.done:
	case <-ctx.Done():
		interrupted = c.late(ctx)
		c.Kill()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	result := Result{Stdout: c.stdout.String(), Stderr: c.stderr.String(), Code: c.code}
	if interrupted != nil {
		return result, interrupted
	}
	return result, c.err
}
