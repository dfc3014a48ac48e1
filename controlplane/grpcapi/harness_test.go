package grpcapi_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a server over a plane, and a client of it.
type bench struct {
	plane    *planetest.Plane
	manager  manager.API
	server   *grpcapi.Server
	registry *prometheus.Registry
	log      *logtest.Log
	known    *conditions.Registry
	client   *grpc.ClientConn
	stopHub  context.CancelFunc
}

// start serves plane, or view of it when that isn't nil, to watchers with
// queues of so many events.
func start(t *testing.T, plane *planetest.Plane, view grpcapi.Plane, queue int) *bench {
	t.Helper()
	return startIn(t, nil, plane, view, queue)
}

// startIn is start in a fleet.
func startIn(t *testing.T, fleet grpcapi.Fleet, plane *planetest.Plane, view grpcapi.Plane, queue int) *bench {
	t.Helper()
	b := &bench{plane: plane, manager: planetest.NewManager(plane), registry: prometheus.NewRegistry(), log: new(logtest.Log), known: conditions.NewRegistry()}
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store, err := desired.New(plane, log, new(rpcrdma.DefaultSettings()), live.KeySet(0).With(live.CreditsMax))
	if err != nil {
		t.Fatal(err)
	}
	plane.Use(store.Resolve)
	if view == nil {
		view = plane
	}
	manager.ReportConditions(b.known, b.manager)
	policy, err := auth.NewPolicy(auth.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	hub := watch.NewHub(plane, store, log, queue)
	b.server, err = grpcapi.New(grpcapi.Config{
		Plane: view, Manager: b.manager, Store: store, Hub: hub, Conditions: b.known, Logger: log, Registerer: b.registry,
		Daemon: grpcapi.Daemon{Version: "v1.2.3", Fleet: fleet}, Started: time.Now(),
		Access: grpcapi.Access{Policy: policy, Places: grpcapi.NewPlaces(grpcapi.DefaultClients())},
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	b.stopHub = cancel
	running.Go(func() { hub.Run(ctx) })
	l := bufconn.Listen(64 << 10)
	running.Go(func() {
		if err := b.server.Serve(l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	b.client, err = grpc.NewClient("passthrough:///bufconn",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// Windows that don't grow: a stream that isn't read fills up.
		grpc.WithInitialWindowSize(64<<10),
		grpc.WithInitialConnWindowSize(1<<20),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		b.client.Close()
		if err := b.server.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		running.Wait()
	})
	return b
}

// smallPlane has a listener and two connections, of which the second's peer
// doesn't take remote invalidation.
func smallPlane() *planetest.Plane {
	p := &planetest.Plane{}
	p.Listen("nfs", "127.0.0.1:20049")
	p.Connect(planetest.Peer{
		ID: "1", Listener: "nfs", Address: "192.0.2.7:1001",
		Stats: rpcrdma.Stats{Calls: 3, Replies: 2, Sends: 2, SendsWithInvalidate: 1, RDMAReads: 4, RDMAWrites: 5, Errors: 1},
	})
	p.Connect(planetest.Peer{
		ID: "2", Listener: "nfs", Address: "[::ffff:192.0.2.8]:1002", NoInvalidation: true, State: dataplane.StateDraining,
	})
	return p
}
