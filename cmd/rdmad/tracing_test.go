package main

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// spans is an OpenTelemetry collector.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names []string // of spans, with the service and the trace
}

func (s *spans) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		for _, scope := range r.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.names = append(s.names, r.GetResource().GetAttributes()[0].GetValue().GetStringValue()+" "+span.GetName()+" "+string(span.GetTraceId()))
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func newCollector(t *testing.T) (*spans, string) {
	t.Helper()
	l := have(net.Listen("tcp", "127.0.0.1:0"))(t)
	s, server := new(spans), grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + l.Addr().String()
}

// TestCollectorIsAway: calls are answered, and rdmad ends in order. Its log has the spans that are
// left, and no calls that were cut off.
func TestCollectorIsAway(t *testing.T) {
	l := have(net.Listen("tcp", apart))(t)
	l.Close() // nobody listens there
	r := newRig(t)
	p := r.start("--set", "tracing.otlp_endpoint=http://"+l.Addr().String())
	if _, err := r.operator(p).process.GetLogLevel(t.Context(), &rdmadv1.GetLogLevelRequest{}); err != nil {
		t.Fatal(err)
	}
	p.end(t, "TERM", 0)
	if log := p.Log(); !strings.Contains(log, "traces are not sent") || strings.Contains(log, "cut off") {
		t.Errorf("the log has\n%s", log)
	}
}

// TestTraces: a collector gets a span of each call of the control plane, in the trace of its
// client. Without an endpoint it gets none.
func TestTraces(t *testing.T) {
	const id, parent = "0123456789abcdef", "00-30313233343536373839616263646566-0123456789abcdef-01"
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			s, endpoint := newCollector(t)
			var args []string
			if on {
				args = []string{"--set", "tracing.otlp_endpoint=" + endpoint}
			}
			r := newRig(t)
			p := r.start(args...)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
			if _, err := r.operator(p).process.GetLogLevel(ctx, &rdmadv1.GetLogLevelRequest{}); err != nil {
				t.Fatal(err)
			}
			p.end(t, "TERM", 0) // it sends what is left
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := slices.Contains(s.names, "rdmad rdmad.v1.ProcessService/GetLogLevel "+id); got != on {
				t.Errorf("spans %q", s.names)
			}
		})
	}
}
