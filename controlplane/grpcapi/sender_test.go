package grpcapi

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/controlplane/watch"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// broken is a stream that can't send.
type broken struct {
	grpc.ServerStream
	ctx context.Context
}

func (b broken) Context() context.Context { return b.ctx }

func (broken) SendHeader(metadata.MD) error { return nil }

func (broken) SendMsg(any) error { panic("broken stream") }

func (b broken) Send(m *rdmadv1.WatchConnectionsResponse) error { return b.SendMsg(m) }

type keeper struct{}

func (keeper) Ended(string) {}
func (keeper) Reconcile()   {}

// TestPanicOfTheSenderIsTheCalls: the sender runs beside the call, and what
// goes wrong in it ends that call where calls are recovered, not the daemon.
func TestPanicOfTheSenderIsTheCalls(t *testing.T) {
	plane := &planetest.Plane{}
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	s := &connectionService{plane: plane, hub: watch.NewHub(plane, keeper{}, slog.Default(), 4)}
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "broken stream\n") || !strings.Contains(p, "broken.Send") {
			t.Errorf("recovered %q", p)
		}
		if plane.WantsChanges() {
			t.Error("the watcher stays")
		}
	}()
	err := s.WatchConnections(&rdmadv1.WatchConnectionsRequest{}, broken{ctx: t.Context()})
	t.Errorf("returned %v", err)
}

// unread is a stream whose client stopped reading.
type unread struct {
	grpc.ServerStreamingServer[rdmadv1.WatchTelemetryResponse]
	ctx     context.Context
	stuck   chan struct{} // closed by the first SendMsg
	unstuck chan struct{} // closed when that has ended
}

func (u unread) Context() context.Context { return u.ctx }

func (u unread) SendHeader(metadata.MD) error { return nil }

func (u unread) SendMsg(any) error {
	defer close(u.unstuck)
	close(u.stuck)
	<-u.ctx.Done()
	return u.ctx.Err()
}

// TestShutdownWaitsForNoReader: the call ends although a sample can't be sent;
// that it ends lets the sender go.
func TestShutdownWaitsForNoReader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stopping := make(chan struct{})
	u := unread{ctx: ctx, stuck: make(chan struct{}), unstuck: make(chan struct{})}
	s := &telemetryService{looks: telemetry.NewLooks(&planetest.Plane{}, time.Now())}
	ended := make(chan error, 1)
	go func() {
		ended <- endStreams(time.Hour, stopping)(nil, u, nil, func(any, grpc.ServerStream) error {
			return s.WatchTelemetry(&rdmadv1.WatchTelemetryRequest{Interval: durationpb.New(time.Millisecond)}, u)
		})
	}()
	<-u.stuck
	close(stopping)
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("ended with %v", err)
	}
	cancel()
	<-u.unstuck
}
