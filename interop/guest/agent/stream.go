package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// stream is one output stream of a command.
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

// copy sends what a pipe delivers, and closes it. The read deadline passes when
// the command ends. copy then sends everything written up to that moment,
// however long sending takes. It sends nothing that processes left behind by
// the command write later.
func (s stream) copy(pipe *os.File) {
	defer pipe.Close()
	buf := make([]byte, agentwire.MaxPayload)
	for {
		n, err := pipe.Read(buf)
		if _, failed := s.Write(buf[:n]); failed != nil {
			return // the host is gone
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.drain(pipe, buf)
		}
		if err != nil {
			return
		}
	}
}

// drain sends what is in a pipe now.
func (s stream) drain(pipe *os.File, buf []byte) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
		for err == nil && left > 0 {
			var n int
			if n, err = unix.Read(int(fd), buf[:min(left, len(buf))]); err == nil {
				left -= n
				_, err = s.Write(buf[:n])
			}
		}
	})
}
