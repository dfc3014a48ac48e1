package grpcapi

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/rdmad/rdmad/controlplane/auth"
)

// serveHere serves until the test ends.
func serveHere(t *testing.T, s *Server) (stop func()) {
	t.Helper()
	l := bufconn.Listen(1 << 10)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestCheck(t *testing.T) {
	s, _ := newServer(t, Access{})
	stop := serveHere(t, s)
	for range 3 {
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.health.Shutdown()
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "NOT_SERVING") {
		t.Errorf("of a server that isn't well: %v", err)
	}
	stop()
	if err := s.Check(t.Context()); err == nil {
		t.Error("a server that has ended answers")
	}
}

// TestCheckWithTLS needs no certificate, and no rate either: what is refused
// is answered.
func TestCheckWithTLS(t *testing.T) {
	s, _ := newServer(t, Access{Certificates: new(auth.Certificates), Rate: auth.Rate{PerSecond: 0.0001, Burst: 1}})
	defer serveHere(t, s)()
	for range 3 {
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckUnserved has nobody who would answer.
func TestCheckUnserved(t *testing.T) {
	s, _ := newServer(t, Access{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Check(ctx); err == nil {
		t.Error("a server that isn't served answers")
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestItselfEnds(t *testing.T) {
	l := newItself()
	l.Close()
	l.Close()
	if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted %v, %v", c, err)
	}
	if c, err := l.dial(t.Context(), checker); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dialed %v, %v", c, err)
	}
}
