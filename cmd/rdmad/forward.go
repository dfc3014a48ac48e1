package main

import (
	"context"
	"net/netip"

	"github.com/rdmad/rdmad/dataplane/forward"
	"github.com/rdmad/rdmad/dataplane/perconn"
)

func openForward(s *service) error {
	limit := s.of.memory()
	s.of.unpooled.SetLimit(limit.Forward())
	f := forward.New(forward.Config{Forward: *s.spec.Forward, Logger: s.log, Unpooled: s.of.unpooled})
	s.Handler = f
	s.forward.Store(f)
	return nil
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
	return ofEach(s, func(sv *service) *forward.Forwarder { return sv.forward.Load() }, (*forward.Forwarder).Stats)
}
