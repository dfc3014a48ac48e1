package main

import (
	"context"
	"net/netip"

	"github.com/rdmad/rdmad/dataplane/forward"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// forwardConfig converts the specification of a forward service for package forward.
func forwardConfig(f *spec.Forward) forward.Config {
	return forward.Config{
		Address: f.Address, DialTimeout: f.DialTimeout, CallTimeout: f.CallTimeout, CallbackTimeout: f.CallbackTimeout,
		ReservedPort: f.ReservedPort, MaxRecord: int(f.MaxRecord),
	}
}

func openForward(s *service) error {
	c := forwardConfig(s.spec.Forward)
	limit := s.memory()
	s.unpooled.SetLimit(limit.Forward())
	c.Logger, c.Unpooled = s.log, s.unpooled
	f := forward.New(c)
	s.Handler = f
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward = f
	return nil
}

func (s *service) forwarder() *forward.Forwarder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forward
}

// OpenConn implements perconn.Opener for services whose handler does.
func (s *service) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	if o, ok := s.Handler.(perconn.Opener); ok {
		return o.OpenConn(ctx, peer)
	}
	return nil, nil
}

// forwardStats returns the counters of the forward services, by service.
func (s *services) forwardStats() map[string]forward.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]forward.Stats)
	for _, sv := range s.all {
		if f := sv.forwarder(); f != nil {
			out[sv.spec.Name] = f.Stats()
		}
	}
	return out
}
