package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// sender writes the frames of many commands to the one port.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sender) send(f agentwire.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return agentwire.Write(s.w, f)
}

func (s *sender) sendExit(id uint32, status agentwire.ExitStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return agentwire.WriteJSON(s.w, id, agentwire.Exit, status)
}

// jobs are the running commands.
type jobs struct {
	out *sender
	dir string // working directory of scripts
	mu  sync.Mutex
	pid map[uint32]int
}

func newJobs(out *sender, dir string) *jobs {
	return &jobs{out: out, dir: dir, pid: map[uint32]int{}}
}

// start runs a script with the shell, in a session of its own.
func (j *jobs) start(id uint32, payload []byte) {
	var req agentwire.StartRequest
	if err := json.Unmarshal(payload, &req); err != nil {
		j.out.sendExit(id, agentwire.ExitStatus{Code: -1, Error: err.Error()})
		return
	}
	cmd := exec.Command("/bin/sh", "-c", req.Script)
	cmd.Dir = j.dir
	cmd.Env = environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipes, err := begin(cmd)
	if err != nil {
		j.out.sendExit(id, agentwire.ExitStatus{Code: -1, Error: err.Error()})
		return
	}
	j.mu.Lock()
	j.pid[id] = cmd.Process.Pid
	j.mu.Unlock()
	go j.wait(id, cmd, pipes)
}

// begin starts a command and returns the pipes of its standard output and
// standard error.
func begin(cmd *exec.Cmd) (pipes [2]*os.File, err error) {
	var ends [2]*os.File // the command's ends
	for i := range pipes {
		if pipes[i], ends[i], err = os.Pipe(); err != nil {
			break
		}
	}
	if err == nil {
		cmd.Stdout, cmd.Stderr = ends[0], ends[1]
		err = cmd.Start()
	}
	for i := range ends { // closing a nil file only returns an error
		ends[i].Close()
		if err != nil {
			pipes[i].Close()
		}
	}
	return pipes, err
}

func (j *jobs) wait(id uint32, cmd *exec.Cmd, pipes [2]*os.File) {
	var outputs sync.WaitGroup
	for i, kind := range []agentwire.Kind{agentwire.Stdout, agentwire.Stderr} {
		outputs.Go(func() { stream{j.out, id, kind}.copy(pipes[i]) })
	}
	err := cmd.Wait()
	j.mu.Lock()
	delete(j.pid, id)
	j.mu.Unlock()
	for _, p := range pipes {
		_ = p.SetReadDeadline(time.Now()) // copy then closes the pipe
	}
	outputs.Wait()
	j.out.sendExit(id, exitStatus(cmd, err))
}

func exitStatus(cmd *exec.Cmd, err error) agentwire.ExitStatus {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return agentwire.ExitStatus{Code: -1, Error: err.Error()}
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return agentwire.ExitStatus{Code: 128 + int(status.Signal())}
	}
	return agentwire.ExitStatus{Code: status.ExitStatus()}
}

// kill kills a command and all processes of its process group.
func (j *jobs) kill(id uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if pid, ok := j.pid[id]; ok {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
