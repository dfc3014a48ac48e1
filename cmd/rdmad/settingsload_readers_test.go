package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// stoppedReaders are clients of streams that take the first message and never
// another one.
type stoppedReaders struct{ opened int }

// open opens one of each stream and takes a first message; they end with ctx.
func (s *stoppedReaders) open(ctx context.Context, t *testing.T, conn *grpc.ClientConn, beside *sync.WaitGroup) {
	for _, one := range streams(ctx, t, conn) {
		s.opened++
		if err := one.begin(); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
		beside.Go(func() {
			<-ctx.Done()
			for one.stream.RecvMsg(one.message) == nil { // what was on its way
			}
		})
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
