package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/rdmad/rdmad/dataplane/forward"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/perconn"
)

// forwardSpec is a forward service of the configuration, as the manager takes
// it.
func forwardSpec(c *forward.Config) *manager.ForwardSpec {
	return &manager.ForwardSpec{
		Address: c.Address, DialTimeout: c.DialTimeout, CallTimeout: c.CallTimeout, CallbackTimeout: c.CallbackTimeout,
		ReservedPort: c.ReservedPort, MaxRecord: c.MaxRecord,
	}
}

// forwardConfig is the other way round.
func forwardConfig(f *manager.ForwardSpec) forward.Config {
	return forward.Config{
		Address: f.Address, DialTimeout: f.DialTimeout, CallTimeout: f.CallTimeout, CallbackTimeout: f.CallbackTimeout,
		ReservedPort: f.ReservedPort, MaxRecord: f.MaxRecord,
	}
}

// checkForward checks what an operator wants.
func checkForward(f *manager.ForwardSpec) error {
	c := forwardConfig(f)
	var bad *forward.ConfigError
	if err := c.Check(); errors.As(err, &bad) {
		return &manager.InvalidError{Field: "forward." + bad.Key, Text: bad.Msg}
	}
	return nil
}

func openForward(s *service, _ bool) error {
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

// OpenConn implements perconn.Opener, for those services that are one.
func (s *service) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	if o, ok := s.Handler.(perconn.Opener); ok {
		return o.OpenConn(ctx, peer)
	}
	return nil, nil
}

// forwardStats are the counters of the services that forward, by service.
func (s *services) forwardStats() map[string]forward.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]forward.Stats)
	for sv := range s.all {
		if f := sv.forwarder(); f != nil {
			out[sv.spec.Name] = f.Stats()
		}
	}
	return out
}
