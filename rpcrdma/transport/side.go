package transport

import (
	"context"

	"github.com/rdmad/rdmad/rpcrdma/conn"
)

// side carries out the actions of a role's core. A link has one for each direction. link.mu
// is held in all methods.
type side struct {
	*link
	own     performer
	acts    []conn.Action
	running bool // acts are being carried out
}

// performer is the role of a side.
type performer interface {
	// posted: n of asked receives were posted.
	posted(asked, n int)
	// resized: later receives have another size.
	resized()
	// changed: the peer changed its characteristics.
	changed()
	// perform carries out an action that only this role has.
	perform(a conn.Action)
}

// do carries out the actions that an event of the core appended to s.acts.
func (s *side) do(acts []conn.Action) {
	s.acts = acts
	s.carryOut()
}

// carryOut carries out s.acts in order. An action may append others.
func (s *side) carryOut() {
	if s.running {
		return
	}
	s.running = true
	if len(s.acts) > 0 {
		s.mu.moved.Set()
	}
	for i := 0; i < len(s.acts); i++ {
		if a := s.acts[i]; !s.dead || outlives(a) {
			s.carry(a)
		}
	}
	clear(s.acts)
	s.acts = s.acts[:0]
	s.running = false
	if s.rq.grown() && !s.dead {
		s.role.resized()
	}
}

// outlives reports whether an action is carried out even after the connection ended. Lost
// completes the calls that the other actions are for.
func outlives(a conn.Action) bool {
	switch a.(type) {
	case conn.Take, conn.Complete:
		return true
	}
	return false
}

func (s *side) carry(a conn.Action) {
	switch a := a.(type) {
	case conn.Repost:
		if err := s.rq.repost(a.Recv); err != nil {
			s.dieLocked(err)
		}
	case conn.FreeReceive:
		s.rq.drop(a.Recv)
	case conn.PostReceives:
		n, err := s.rq.post(a.N)
		s.own.posted(a.N, n)
		if err != nil {
			s.dieLocked(err)
		}
	case conn.Tell:
		s.tell(a.Body)
	case conn.Resize:
		s.rq.resize(a.N)
		s.own.resized()
	case conn.Changed:
		s.own.changed()
	case conn.Fail:
		s.dieLocked(a.Err)
	default:
		s.own.perform(a)
	}
}

// tell implements the Tell action: the message goes out after everything submitted before.
func (s *side) tell(msg []byte) {
	if o, b := s.message(opTell, len(msg)); o != nil {
		copy(b, msg)
		o.signal = true
		s.submit(o)
	}
}

// Abandon frees a role that was not started.
func (s *side) Abandon() { s.abandon() }

// Close ends the connection at once and waits until everything is freed. Calls in flight
// fail.
func (s *side) Close() error {
	s.fail(nil)
	<-s.done
	return nil
}

// drainedBy waits for a draining connection to end. It closes the connection if ctx ends
// first.
func (s *side) drainedBy(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.Close()
		return ctx.Err()
	}
}

// Done is closed when the connection has ended and everything is freed.
func (s *side) Done() <-chan struct{} { return s.done }

// Err returns why the connection ended, as an *Error. It is nil while the connection is up
// and after an orderly end.
func (s *side) Err() error {
	s.mu.look()
	defer s.mu.Unlock()
	return s.reason
}
