package grpcapi_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

type watchStream = rdmadv1.ConnectionService_WatchConnectionsClient

// watchAll opens a stream and reads what exists.
func watchAll(t *testing.T, b *bench, ctx context.Context, existing int) watchStream {
	t.Helper()
	stream := have(rdmadv1.NewConnectionServiceClient(b.client).WatchConnections(ctx, &rdmadv1.WatchConnectionsRequest{}))(t)
	for range existing {
		if e := next(t, stream); e.GetType() != rdmadv1.WatchConnectionsResponse_EXISTING {
			t.Fatalf("got %v", e)
		}
	}
	return stream
}

func next(t *testing.T, stream watchStream) *rdmadv1.WatchConnectionsResponse {
	t.Helper()
	return have(stream.Recv())(t)
}

func TestWatchTellsEveryChange(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	stream := watchAll(t, b, t.Context(), 2)
	b.plane.Connect(planetest.Peer{ID: "3", Listener: "nfs", Address: "192.0.2.9:1003"})
	if _, err := rdmadv1.NewSettingsServiceClient(b.client).SetSettings(t.Context(),
		request(t, `{"scope":"connection/3","settings":{"inline":{"send_max":1024}}}`)); err != nil {
		t.Fatal(err)
	}
	b.plane.Disconnect("1", "the peer hung up")
	var got []string
	for range 3 {
		e := next(t, stream)
		if e.GetTime() == nil {
			t.Errorf("an event without time: %v", e)
		}
		got = append(got, fmt.Sprintf("%s %s %d %s", e.GetType(), e.GetConnection().GetId(), e.GetConnection().GetInlineSend(), e.GetReason()))
	}
	want := "UP 3 4096 |CHANGED 3 1024 |DOWN 1 4096 the peer hung up"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

// late gives a list that is older or newer than the events say.
type late struct {
	*planetest.Plane
	list func() []dataplane.ConnInfo
}

func (l late) Connections() []dataplane.ConnInfo { return l.list() }

// TestWatchTellsNothingTwice: the list may tell a connection that the events
// tell again, and a connection that isn't up isn't told of at all.
func TestWatchTellsNothingTwice(t *testing.T) {
	plane := smallPlane()
	b := start(t, plane, late{plane, func() []dataplane.ConnInfo {
		// Between subscription and list: 3 comes up, 1 ends.
		plane.Connect(planetest.Peer{ID: "3", Listener: "nfs", Address: "192.0.2.9:1003"})
		plane.Disconnect("1", "gone")
		return plane.Connections()
	}}, 16)
	stream := watchAll(t, b, t.Context(), 2)
	plane.Connect(planetest.Peer{ID: "4", Listener: "nfs", Address: "192.0.2.9:1004"})
	if e := next(t, stream); e.GetType() != rdmadv1.WatchConnectionsResponse_UP || e.GetConnection().GetId() != "4" {
		t.Errorf("got %v", e)
	}
}

// TestSlowWatcherIsDropped: a client that stops reading loses its stream with
// the reason; one that reads sees everything meanwhile, and the plane never
// waits.
func TestSlowWatcherIsDropped(t *testing.T) {
	b := start(t, smallPlane(), nil, 1024)
	slow := watchAll(t, b, t.Context(), 2)
	fast := watchAll(t, b, t.Context(), 2)
	const events = 4000 // more than flow control and queue hold together
	for i := range events {
		id := strconv.Itoa(10 + i)
		b.plane.Connect(planetest.Peer{ID: id, Listener: "nfs", Address: "192.0.2.9:1003"})
		b.plane.Disconnect(id, "gone")
		for range 2 {
			if e := next(t, fast); e.GetConnection().GetId() != id {
				t.Fatalf("the fast watcher got %v", e)
			}
		}
	}
	// The call ends although its client still doesn't read.
	b.log.Await(t, "grpc.code=ResourceExhausted")
	seen := 0
	for {
		_, err := slow.Recv()
		if err == nil {
			seen++
			continue
		}
		st := status.Convert(err)
		if st.Code() != codes.ResourceExhausted || detail(st) != "ErrorInfo ERROR_REASON_SLOW_READER map[]" {
			t.Errorf("ended with %v, %s", err, detail(st))
		}
		break
	}
	if seen == 0 || seen >= 2*events {
		t.Errorf("the slow watcher saw %d events", seen)
	}
}

func TestWatchersAreBounded(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 32 {
		watchAll(t, b, ctx, 2)
	}
	stream, err := rdmadv1.NewConnectionServiceClient(b.client).WatchConnections(ctx, &rdmadv1.WatchConnectionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || detail(st) != "ErrorInfo ERROR_REASON_LIMIT map[limit:32]" {
		t.Errorf("one more of the same client: %v", err)
	}
}

func TestConnectionSettingsEndWithIt(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	if _, err := c.SetSettings(t.Context(), request(t, `{"scope":"connection/1","settings":{"ddp":{"min_chunk":1}}}`)); err != nil {
		t.Fatal(err)
	}
	stream := watchAll(t, b, t.Context(), 2)
	b.plane.Disconnect("1", "gone")
	next(t, stream) // the hub has told the store before it tells watchers
	b.plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	res, err := c.GetSettings(t.Context(), &rdmadv1.GetSettingsRequest{Scope: "connection/1", Keys: []string{"ddp.min_chunk"}})
	if err != nil || res.GetValues()[0].GetSource() != "default" {
		t.Errorf("%v, %v", res, err)
	}
}

func TestShutdownEndsStreams(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	stream := watchAll(t, b, t.Context(), 2)
	b.stopHub()
	must(t, b.server.Shutdown(t.Context()))
	_, err := stream.Recv()
	if st := status.Convert(err); st.Code() != codes.Unavailable || st.Message() != "rdmad is shutting down" {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestShutdownEndsOtherStreams: also those of services that come with gRPC.
func TestShutdownEndsOtherStreams(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	health := have(healthpb.NewHealthClient(b.client).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "rdmad.v1.StatusService"}))(t)
	have(health.Recv())(t)
	files := have(reflectionpb.NewServerReflectionClient(b.client).ServerReflectionInfo(t.Context()))(t)
	must(t, files.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
	have(files.Recv())(t)
	b.stopHub()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, b.server.Shutdown(ctx))
	for {
		if _, err := health.Recv(); err != nil {
			break // at the first it may say that it does not serve
		}
	}
	if _, err := files.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
}

// stuck doesn't answer until it is let go.
type stuck struct {
	*planetest.Plane
	asked, let chan struct{}
}

func (s stuck) Listeners() []dataplane.ListenerInfo {
	close(s.asked)
	<-s.let
	return nil
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	plane := smallPlane()
	s := stuck{plane, make(chan struct{}), make(chan struct{})}
	b := start(t, plane, s, 16)
	answer := make(chan error, 1)
	go func() {
		_, err := rdmadv1.NewStatusServiceClient(b.client).GetStatus(context.Background(), &rdmadv1.GetStatusRequest{})
		answer <- err
	}()
	<-s.asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.server.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-answer; status.Code(err) != codes.Unavailable {
		t.Errorf("the call ended with %v", err)
	}
	close(s.let)
}

// A client that goes away is no fault of ours, whatever stream it reads.
func TestClientsThatGoAwayAreNoFaults(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	ctx, cancel := context.WithCancel(t.Context())
	watchAll(t, b, ctx, 2)
	revisions, err := rdmadv1.NewSettingsServiceClient(b.client).WatchSettings(ctx, &rdmadv1.WatchSettingsRequest{})
	if err == nil {
		_, err = revisions.Header()
	}
	if err != nil {
		t.Fatal(err)
	}
	rates, err := rdmadv1.NewTelemetryServiceClient(b.client).WatchTelemetry(ctx, &rdmadv1.WatchTelemetryRequest{Interval: durationpb.New(100 * time.Millisecond)})
	if err == nil {
		_, err = rates.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, method := range []string{"WatchConnections", "WatchSettings", "WatchTelemetry"} {
		b.log.Await(t, "grpc.method="+method)
	}
	if log := b.log.String(); strings.Contains(log, "level=ERROR") || strings.Count(log, "grpc.code=Canceled") != 3 {
		t.Errorf("log:\n%s", log)
	}
}
