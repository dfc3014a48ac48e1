package grpcapi

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/watch"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// broken is a stream that can't send.
type broken struct {
	grpc.ServerStream
	ctx context.Context
}

func (b broken) Context() context.Context { return b.ctx }

func (broken) Send(*rdmadv1.WatchConnectionsResponse) error { panic("broken stream") }

type keeper struct{}

func (keeper) Ended(string) {}
func (keeper) Reconcile()   {}

// TestPanicOfTheSenderIsTheCalls: the sender runs beside the call, and what
// goes wrong in it ends that call where calls are recovered, not the daemon.
func TestPanicOfTheSenderIsTheCalls(t *testing.T) {
	plane := &planetest.Plane{}
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	s := &connectionService{plane: plane, hub: watch.NewHub(plane, keeper{}, slog.Default(), 4, 1)}
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "broken stream\n") || !strings.Contains(p, "broken.Send") {
			t.Errorf("recovered %q", p)
		}
		if w, err := s.hub.Watch(); err != nil {
			t.Errorf("the watcher stays: %v", err)
		} else {
			w.Close()
		}
	}()
	err := s.WatchConnections(&rdmadv1.WatchConnectionsRequest{}, broken{ctx: t.Context()})
	t.Errorf("returned %v", err)
}
