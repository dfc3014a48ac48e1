package connector

import (
	"context"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

var _ dataplane.ConnectorLink = (*session)(nil)

// SetSettings implements dataplane.Link.
func (s *session) SetSettings(n *rpcrdma.Settings) {
	s.rdma.SetSettings(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = n
	s.limitLocked()
}

// limitLocked sets the limit of calls in flight to the number of credits that we ask for. The
// limit is higher while the target waits for an answer of the client, because the client may
// send further calls before that answer.
func (s *session) limitLocked() {
	n := s.c.cfg.MaxCalls
	if len(s.callbacks) == 0 {
		n = min(n, int(s.settings.CreditsMax))
	}
	s.gate.SetLimit(int64(n))
}

// Info implements dataplane.Link.
func (s *session) Info() rpcrdma.Info { return s.rdma.Info() }

// Stats implements dataplane.Link.
func (s *session) Stats() rpcrdma.Stats { return s.rdma.Stats() }

// Sizes implements dataplane.Link.
func (s *session) Sizes() rpcrdma.Sizes { return s.rdma.Sizes() }

// Drain implements dataplane.Link. It finishes the calls in flight, then disconnects both
// sides. A fresh client can make calls for another moment, at most half of the time: without calls
// it is not cut.
func (s *session) Drain(ctx context.Context) error {
	if fresh := s.c.fresh; time.Since(s.began) < fresh {
		if end, ok := ctx.Deadline(); ok {
			fresh = min(fresh, time.Until(end)/2)
		}
		defer time.AfterFunc(fresh, s.intake.Stop).Stop()
	} else {
		s.intake.Stop()
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.Close()
		return ctx.Err()
	}
}

// Close implements dataplane.Link.
func (s *session) Close() error {
	s.end(nil)
	<-s.done
	return nil
}

// Done implements dataplane.Link.
func (s *session) Done() <-chan struct{} { return s.done }

// Err implements dataplane.Link.
func (s *session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
