package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is an agent over a settings store with listener nfs and one connection.
type node struct {
	*Agent
	settings *desired.Store
	plane    *planetest.Plane
	stop     func()
}

func newSettings(t *testing.T) (*desired.Store, *planetest.Plane) {
	t.Helper()
	plane := &planetest.Plane{}
	plane.Listen("nfs", "127.0.0.1:20049")
	defaults := rpcrdma.DefaultSettings()
	s, err := desired.New(plane, slog.New(slog.DiscardHandler), &defaults, 0)
	if err != nil {
		t.Fatal(err)
	}
	plane.Use(s.Resolve)
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	return s, plane
}

func newStore(t *testing.T, c store.Config) *store.Store {
	t.Helper()
	c.Prefix = "/rdmad"
	s, err := store.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// run makes a node n1 of the fleet in etcd, until the test or stop ends it.
func run(t *testing.T, c store.Config, change func(*node)) *node {
	t.Helper()
	s, plane := newSettings(t)
	n := &node{settings: s, plane: plane}
	n.Agent = New(Config{
		Store: newStore(t, c), Node: "n1", Local: s, Conditions: conditions.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Identity: fleet.Identity{Labels: fleet.Labels{"role": "gateway"}, Version: "v1", Control: "127.0.0.1:20050"},
		Load: func(time.Time) fleet.Load {
			return fleet.Load{Calls: 7, Errors: 0.5, P99: time.Millisecond, Connections: 2}
		},
		Every: 100 * time.Millisecond, TTL: 5 * time.Second,
	})
	if change != nil {
		change(n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { n.Run(ctx) })
	n.stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(n.stop)
	return n
}

func of(e *etcdtest.Etcd) store.Config { return store.Config{Endpoints: []string{e.Endpoint}} }

// await waits until the node's condition has a reason, and returns its message.
func (n *node) await(t *testing.T, want *conditions.Reason) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := n.Conditions.Watch()
	defer w.Close()
	for w.Next(ctx.Done()) {
		if c := n.condition(); c != nil && c.Reason == want {
			return c.Message
		}
	}
	t.Fatalf("condition %v, want %s", n.condition(), want.Name)
	return ""
}

func (n *node) condition() *conditions.Condition {
	return n.Conditions.List().Find(conditions.Fleet, n.Node)
}

// awaitReport waits until etcd has a report of which ok holds.
func awaitReport(t *testing.T, s *store.Store, node string, ok func(*fleet.Node) bool) *fleet.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last *fleet.Node
	for range s.Client().Watch(ctx, s.StatusKey(node), clientv3.WithRev(1)) {
		all, _, err := s.AllNodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			if last = n; n.Name == node && n.Report != nil && ok(n) {
				return n
			}
		}
	}
	t.Fatalf("no such report; the last is %+v of %+v", last.Report, last)
	return nil
}

const small = `{"name":"small","selector":["role=gateway"],"scopes":[{"scope":"%s","settings":{"inline":{"send_max":%d}}}],"revision":%d}`

// assign writes a policy and an assignment of it.
func assign(t *testing.T, e *etcdtest.Etcd, scope string, revision, value int) {
	t.Helper()
	e.Put(t, fmt.Sprintf("/rdmad/policy/small@%d", revision), fmt.Sprintf(small, scope, value, revision))
	e.Put(t, "/rdmad/assign/n1", fmt.Sprintf(`{"policies":["small@%d"]}`, revision))
}

// sendMax is the value in force on the connection.
func (n *node) sendMax(t *testing.T) uint32 {
	t.Helper()
	v := n.settings.Resolve(n.plane.Connections()[0].ConnKey)
	all := live.Of(v)
	return all.Value(live.InlineSendMax)
}

func (n *node) check(t *testing.T, want uint32) {
	t.Helper()
	if got := n.sendMax(t); got != want {
		t.Errorf("inline.send_max is %d, want %d", got, want)
	}
}
