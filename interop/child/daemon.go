package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"sync"
)

// Daemon is an rdmad that has reported that it is ready.
type Daemon struct {
	*Process
	message func(string)
	ready   chan struct{}

	mu        sync.Mutex
	log       bytes.Buffer // its first bytes, at most keptLog
	logged    int64
	line      []byte // what has come of a line
	isReady   bool
	addresses map[string]string
}

// keptLog is how many bytes of a log are stored, so that a flood does not fill the memory.
const keptLog = 16 << 20

// StartDaemon starts cmd, which is an rdmad, and waits until it is ready. It adds the option that
// makes rdmad log as JSON. Message, if it is not nil, is called with each message of the log.
// If ctx ends before rdmad is ready, StartDaemon kills it.
func StartDaemon(ctx context.Context, cmd *exec.Cmd, message func(string)) (*Daemon, error) {
	d := &Daemon{message: message, ready: make(chan struct{}), addresses: map[string]string{}}
	cmd.Args = append(cmd.Args, "--log-format", "json")
	cmd.Stderr = (*logWriter)(d)
	var err error
	if d.Process, err = Start(cmd); err != nil {
		return nil, err
	}
	select {
	case <-d.ready:
		return d, nil
	case <-d.Done():
		select {
		case <-d.ready: // and has ended since
			return d, nil
		default:
		}
		return nil, fmt.Errorf("rdmad did not start: %s (%w)", bytes.TrimSpace([]byte(d.Log())), d.Wait())
	case <-ctx.Done():
		d.Kill()
		return nil, fmt.Errorf("rdmad is not ready: %w\n%s", context.Cause(ctx), d.Log())
	}
}

// Address returns the address on which rdmad said that it listens: "control plane", "console",
// "metrics", "listener NAME", and the last one of any "listener", "service" and "connector".
func (d *Daemon) Address(what string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addresses[what]
}

// Addresses returns all addresses that Address knows.
func (d *Daemon) Addresses() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.addresses)
}

// Log returns the log so far.
func (d *Daemon) Log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// Logged returns the number of bytes that were logged.
func (d *Daemon) Logged() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logged
}

// logWriter is the Daemon to which rdmad writes its log.
type logWriter Daemon

func (d *logWriter) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logged += int64(len(p))
	d.log.Write(p[:min(len(p), keptLog-d.log.Len())])
	if d.isReady && d.message == nil {
		return len(p), nil
	}
	d.line = append(d.line, p...)
	for {
		line, rest, found := bytes.Cut(d.line, []byte{'\n'})
		if !found {
			return len(p), nil
		}
		d.inspect(line)
		d.line = bytes.Clone(rest)
	}
}

func (d *logWriter) inspect(line []byte) {
	var entry struct{ Msg, What, Listener, Service, Address string }
	if json.Unmarshal(line, &entry) != nil {
		return // the trace of a panic, for example
	}
	switch entry.Msg {
	case "listening":
		d.addresses[entry.What] = entry.Address
		if name := entry.Listener; name != "" {
			d.addresses[entry.What+" "+name] = entry.Address
		} else if name := entry.Service; name != "" {
			d.addresses[entry.What+" "+name] = entry.Address
		}
	case "ready":
		if !d.isReady {
			d.isReady = true
			close(d.ready)
		}
	}
	if d.message != nil {
		d.message(entry.Msg)
	}
}
