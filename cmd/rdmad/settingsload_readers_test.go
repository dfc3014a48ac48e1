package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// stoppedReaders are clients of streams that take the first message and never
// another one, until their phase is over.
type stoppedReaders struct {
	opened  int
	dropped atomic.Uint64 // ended by rdmad, as too slow
	skipped atomic.Uint64 // told that events are missing
}

// open opens one of each stream and takes a first message. When ctx ends they
// look what has become of them.
func (s *stoppedReaders) open(ctx context.Context, t *testing.T, conn *grpc.ClientConn, beside *sync.WaitGroup) {
	own, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	context.AfterFunc(ctx, func() { time.AfterFunc(*loadSlice/4, cancel) })
	for _, one := range streams(own, t, conn) {
		s.opened++
		if err := one.begin(); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
		beside.Go(func() {
			<-ctx.Done()
			s.look(t, &one)
		})
	}
}

// look reads a stream to its end.
func (s *stoppedReaders) look(t *testing.T, one *stream) {
	skipped := false
	for {
		switch err := one.stream.RecvMsg(one.message); status.Code(err) {
		case codes.OK:
			e, ok := one.message.(*rdmadv1.TraceResponse)
			skipped = skipped || ok && e.GetDropped() > 0
			continue
		case codes.ResourceExhausted:
			s.dropped.Add(1)
		case codes.Canceled:
		default:
			t.Errorf("%s: %v", one.name, err)
		}
		if skipped {
			s.skipped.Add(1)
		}
		return
	}
}

// stream is one that is open, with memory for its messages.
type stream struct {
	name    string
	stream  grpc.ClientStream
	message any
	lazy    bool // without messages until something happens
}

// begin waits until it runs.
func (s *stream) begin() error {
	if s.lazy {
		_, err := s.stream.Header()
		return err
	}
	return s.stream.RecvMsg(s.message)
}

// streams opens the streams that the traffic of the data plane fills.
func streams(ctx context.Context, t *testing.T, conn *grpc.ClientConn) []stream {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
	}
	watch, err := rdmadv1.NewConnectionServiceClient(conn).WatchConnections(ctx, &rdmadv1.WatchConnectionsRequest{})
	must(err)
	rates, err := rdmadv1.NewTelemetryServiceClient(conn).WatchTelemetry(ctx, &rdmadv1.WatchTelemetryRequest{Interval: durationpb.New(100 * time.Millisecond)})
	must(err)
	revisions, err := rdmadv1.NewSettingsServiceClient(conn).WatchSettings(ctx, &rdmadv1.WatchSettingsRequest{})
	must(err)
	diagnostics := rdmadv1.NewDiagnosticsServiceClient(conn)
	trace, err := diagnostics.Trace(ctx, &rdmadv1.TraceRequest{})
	must(err)
	capture, err := diagnostics.Capture(ctx, &rdmadv1.CaptureRequest{})
	must(err)
	return []stream{
		{"WatchConnections", watch, new(rdmadv1.WatchConnectionsResponse), false},
		{"WatchTelemetry", rates, new(rdmadv1.WatchTelemetryResponse), false},
		{"WatchSettings", revisions, new(rdmadv1.WatchSettingsResponse), true},
		{"Trace", trace, new(rdmadv1.TraceResponse), false},
		{"Capture", capture, new(rdmadv1.CaptureResponse), false},
	}
}
