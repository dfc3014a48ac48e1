package guest

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a running QEMU.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when QEMU ended
	err  error         // how it ended; read after done
}

// startProcess starts QEMU such that it dies with this process. The kernel
// sends the parent-death signal when the starting thread ends, so one thread is
// kept for as long as QEMU runs.
func startProcess(args []string, in io.Reader, out io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(qemuProgram, args...), done: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	return p, nil
}

// stop kills QEMU and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}
