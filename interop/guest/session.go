package guest

import (
	"bufio"
	"fmt"
	"net"
	"sync"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// session is the connection to the agent of one guest.
type session struct {
	conn  net.Conn
	ready chan struct{} // closed when the agent has sent Ready

	mu       sync.Mutex // innermost: no other lock is taken while it is held
	nextID   uint32
	commands map[uint32]*Command
	err      error // why the session ended
}

// newSession makes a session. The caller must start run, which reads what the
// agent sends until the connection ends.
func newSession(conn net.Conn) *session {
	return &session{conn: conn, ready: make(chan struct{}), commands: map[uint32]*Command{}}
}

func (s *session) run() {
	in := bufio.NewReaderSize(s.conn, 2*agentwire.MaxPayload)
	isReady := false
	for {
		frame, err := agentwire.Read(in)
		if err != nil {
			s.end(err)
			return
		}
		if frame.Kind == agentwire.Ready {
			if !isReady {
				isReady = true
				close(s.ready)
			}
			continue
		}
		s.dispatch(frame)
	}
}

func (s *session) dispatch(frame agentwire.Frame) {
	s.mu.Lock()
	cmd := s.commands[frame.ID]
	if frame.Kind == agentwire.Exit {
		delete(s.commands, frame.ID)
	}
	s.mu.Unlock()
	if cmd != nil {
		cmd.receive(frame)
	}
}

// end fails all commands that have not ended.
func (s *session) end(err error) {
	s.mu.Lock()
	s.err = fmt.Errorf("%w: %w", ErrDied, err)
	commands := s.commands
	s.commands = nil
	s.mu.Unlock()
	for _, cmd := range commands {
		cmd.finish(agentwire.ExitStatus{Code: -1}, s.err)
	}
}

// start asks the agent to run a script.
func (s *session) start(script string) (*Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.nextID++
	cmd := newCommand(s, s.nextID)
	s.commands[cmd.id] = cmd
	req := agentwire.StartRequest{Script: script}
	if err := agentwire.WriteJSON(s.conn, cmd.id, agentwire.Start, req); err != nil {
		delete(s.commands, cmd.id)
		return nil, fmt.Errorf("%w: %w", ErrDied, err)
	}
	return cmd, nil
}

func (s *session) kill(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// If this fails, the guest is gone, and the script with it.
	_ = agentwire.Write(s.conn, agentwire.Frame{ID: id, Kind: agentwire.Kill})
}
