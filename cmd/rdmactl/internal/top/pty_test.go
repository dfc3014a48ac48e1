package top_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/creack/pty"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/top"
)

// Terminal is a program that runs in a pseudo-terminal.
type Terminal struct {
	cmd  *exec.Cmd
	file *os.File      // our side
	over chan struct{} // closed when the program has ended

	mu     sync.Mutex
	screen *top.Screen
	grew   chan struct{} // closed with the next output, and made anew
}

// openTerminal starts a program in a terminal of so many columns and lines. Its
// standard error goes there too, unless the command says otherwise.
func openTerminal(cmd *exec.Cmd, columns, lines int) (*Terminal, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(lines)})
	if err != nil {
		return nil, err
	}
	t := &Terminal{cmd: cmd, file: file, over: make(chan struct{}), screen: top.NewScreen(columns, lines), grew: make(chan struct{})}
	go t.read()
	return t, nil
}

// read shows what the program writes, to its end.
func (t *Terminal) read() {
	defer close(t.over)
	buf := make([]byte, 32<<10)
	for {
		n, err := t.file.Read(buf)
		t.mu.Lock()
		_, _ = t.screen.Write(buf[:n]) // never fails
		close(t.grew)
		t.grew = make(chan struct{})
		t.mu.Unlock()
		if err != nil { // EIO when the program has ended
			break
		}
	}
	_ = t.cmd.Wait() // its exit code is in ProcessState
	t.file.Close()
}

// Keys types. "\r" is Enter, "\x1b" Esc.
func (t *Terminal) Keys(keys string) error {
	_, err := t.file.WriteString(keys)
	return err
}

// Resize changes the terminal's size, and signals the program.
func (t *Terminal) Resize(columns, lines int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.Resize(columns, lines)
	return pty.Setsize(t.file, &pty.Winsize{Cols: uint16(columns), Rows: uint16(lines)})
}

// Signal sends one to the program.
func (t *Terminal) Signal(s os.Signal) error { return t.cmd.Process.Signal(s) }

// Look gives the screen as it is to f, and nobody else meanwhile.
func (t *Terminal) Look(f func(*top.Screen)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.screen)
}

// Until waits until the screen is as ok says.
func (t *Terminal) Until(ctx context.Context, ok func(*top.Screen) bool) error {
	for {
		t.mu.Lock()
		done, grew, text := ok(t.screen), t.grew, t.screen.String()
		t.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-grew:
		case <-t.over:
			var last bool
			t.Look(func(s *top.Screen) { last, text = ok(s), s.String() })
			if last {
				return nil
			}
			return fmt.Errorf("the program has ended; the screen:\n%s", text)
		case <-ctx.Done():
			return fmt.Errorf("%w; the screen:\n%s", context.Cause(ctx), text)
		}
	}
}

// Wait waits for the program's end and gives its exit code.
func (t *Terminal) Wait(ctx context.Context) (int, error) {
	select {
	case <-t.over:
		return t.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Kill ends the program if it still runs.
func (t *Terminal) Kill() {
	_ = t.cmd.Process.Kill() // it may have ended
	<-t.over
}
