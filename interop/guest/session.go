package guest

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// session is the connection to the agent of one guest.
type session struct {
	conn  net.Conn
	ready chan struct{} // closed when the agent has sent Ready
	// examine is called once, when the guest is given up, before all commands
	// fail. It gets what is known of the cause, and may use startAnyway.
	examine func(cause string)

	mu       sync.Mutex // innermost: no other lock is taken while it is held
	nextID   uint32
	commands map[uint32]*Command // nil when the session has ended
	err      error               // why it has ended, or why it is given up
}

// newSession makes a session. The caller must start run, which reads what the
// agent sends until the connection ends.
func newSession(conn net.Conn) *session {
	return &session{
		conn: conn, ready: make(chan struct{}), examine: func(string) {},
		commands: map[uint32]*Command{},
	}
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
	heard.Store(time.Now().UnixNano())
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
	if s.err == nil {
		s.err = fmt.Errorf("%w: %w", ErrDied, err)
	}
	commands := s.commands
	s.commands = nil
	err = s.err
	s.mu.Unlock()
	for _, cmd := range commands {
		cmd.finish(agentwire.ExitStatus{Code: -1}, err)
	}
}

// giveUp has the guest examined and fails all its commands, unless that has
// happened already or the guest has died. It returns why commands fail: for the
// reason why, with details only in the report.
func (s *session) giveUp(why, details string) error {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	err := fmt.Errorf("%w: %s", ErrGivenUp, why)
	s.err = err
	s.mu.Unlock()
	s.examine(why + "\n" + details)
	s.mu.Lock()
	commands := s.commands
	if commands != nil {
		s.commands = map[uint32]*Command{}
	}
	s.mu.Unlock()
	for id, cmd := range commands {
		s.kill(id)
		cmd.finish(agentwire.ExitStatus{Code: -1}, err)
	}
	return err
}

// start asks the agent to run a script.
func (s *session) start(script string) (*Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return s.startLocked(script)
}

// startAnyway is start in a guest that is given up.
func (s *session) startAnyway(script string) (*Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commands == nil {
		return nil, s.err
	}
	return s.startLocked(script)
}

func (s *session) startLocked(script string) (*Command, error) {
	s.nextID++
	cmd := newCommand(s, s.nextID, script)
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
