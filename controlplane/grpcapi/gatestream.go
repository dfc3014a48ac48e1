package grpcapi

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/rdmad/rdmad/controlplane/audit"
)

func (g *gate) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	c := g.call(ss.Context(), info.FullMethod)
	if err := g.rate(&c, nil); err != nil {
		return err
	}
	if err := c.allowed(); err != nil {
		g.refused(&c, nil, err)
		return err
	}
	end, err := g.streams.begin(info.FullMethod, c.client)
	if err != nil {
		g.refused(&c, nil, err)
		return err
	}
	defer end()
	s := &gated{ServerStream: ss, gate: g, call: &c, ctx: ss.Context()}
	err = next(srv, s)
	s.end(err)
	return err
}

// ended is the log's entry for the end of an accepted stream. Streams are meant
// to be ended by the client.
func ended(err error) (outcome, reason string) {
	if statusOf(err).Code() == codes.Canceled {
		return audit.OK, ""
	}
	return audited(err)
}

// gated is an accepted stream. Its first message is the request, and goes into
// the audit log. Every message is validated, and counts for the client's rate.
type gated struct {
	grpc.ServerStream
	gate  *gate
	call  *call
	ctx   context.Context
	begun bool

	mu      sync.Mutex     // of what follows: a stream may be ended before its request has come
	request *audit.Request // nil if there is nothing to record
	over    bool
}

// end records the end of the stream.
func (s *gated) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over = true; s.request != nil {
		s.request.Done(ended(err))
	}
}

// Context implements grpc.ServerStream.
func (s *gated) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *gated) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if s.begun { // the first message counted when the stream began
		if err := s.gate.rate(s.call, m); err != nil {
			return err
		}
	}
	if err := validate(s.gate.validator, m); err != nil {
		s.gate.refused(s.call, m, err)
		return err
	}
	if s.begun {
		return nil
	}
	s.begun = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return shutdown()
	}
	var err error
	s.ctx, s.request, err = s.gate.begin(s.ctx, s.call, m)
	return err
}
