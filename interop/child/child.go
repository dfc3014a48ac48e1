// Package child starts programs, rdmad among them, that must not outlive this process,
// however it ends.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputTime is how long a program's output is waited for after its end. What the
// program has started may keep the output open.
const outputTime = 30 * time.Second

// Process is a running program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd. The kernel kills the program when this process dies. It
// sends the parent-death signal when the starting thread ends (prctl(2)). Start
// therefore keeps one thread for as long as the program runs.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = outputTime
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	return p, <-started
}

// Done returns a channel that is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid returns the program's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal. A program that has ended gets none.
func (p *Process) Signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
}

// Wait waits until the program ends and returns the same error as
// exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Kill kills the program and waits until it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}
