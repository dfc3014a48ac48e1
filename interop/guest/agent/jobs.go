package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// outputGrace is how long output of a finished command's children is awaited.
const outputGrace = time.Second

// sender writes frames of many commands to the one port.
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

// stream is the output of one command.
type stream struct {
	out  *sender
	id   uint32
	kind agentwire.Kind
}

func (s stream) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, agentwire.MaxPayload)
		f := agentwire.Frame{ID: s.id, Kind: s.kind, Payload: p[sent : sent+n]}
		if err := s.out.send(f); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// jobs are the commands that run.
type jobs struct {
	out *sender
	dir string // where scripts start
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
	cmd.Stdout = stream{j.out, id, agentwire.Stdout}
	cmd.Stderr = stream{j.out, id, agentwire.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = outputGrace
	if err := cmd.Start(); err != nil {
		j.out.sendExit(id, agentwire.ExitStatus{Code: -1, Error: err.Error()})
		return
	}
	j.mu.Lock()
	j.pid[id] = cmd.Process.Pid
	j.mu.Unlock()
	go j.wait(id, cmd)
}

func (j *jobs) wait(id uint32, cmd *exec.Cmd) {
	err := cmd.Wait()
	j.mu.Lock()
	delete(j.pid, id)
	j.mu.Unlock()
	j.out.sendExit(id, exitStatus(cmd, err))
}

func exitStatus(cmd *exec.Cmd, err error) agentwire.ExitStatus {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return agentwire.ExitStatus{Code: -1, Error: err.Error()}
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return agentwire.ExitStatus{Code: 128 + int(status.Signal())}
	}
	return agentwire.ExitStatus{Code: status.ExitStatus()}
}

// kill kills a command with all processes of its session's first group.
func (j *jobs) kill(id uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if pid, ok := j.pid[id]; ok {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
