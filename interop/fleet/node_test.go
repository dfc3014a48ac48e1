package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/agent"
	"github.com/rdmad/rdmad/controlplane/fleet/controller"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/rpcrdma"
)

// node is an rdmad of a fleet over a data plane without data: the real agent, controller and
// store of settings. Its listener nfs has one connection.
type node struct {
	name     string
	store    *store.Store
	settings *desired.Store
	known    *conditions.Registry
	agent    agent.Config
	lead     controller.Config
}

// newNode makes a node whose settings are kept in a file, "" for nowhere.
func newNode(name, labels, state string, c store.Config) (*node, error) {
	plane := &planetest.Plane{}
	plane.Listen("nfs", "127.0.0.1:20049")
	defaults := rpcrdma.DefaultSettings()
	log := slog.New(slog.DiscardHandler)
	s, err := desired.New(plane, log, &defaults, 0)
	if err != nil {
		return nil, err
	}
	if state != "" {
		if _, err := s.Open(state, settings.FileLayer{}); err != nil {
			return nil, err
		}
	}
	plane.Use(s.Resolve)
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	l, err := fleet.ParseLabels(labels)
	if err != nil {
		return nil, err
	}
	c.Prefix = prefix
	st, err := store.New(c)
	if err != nil {
		return nil, err
	}
	n := &node{name: name, store: st, settings: s, known: conditions.NewRegistry()}
	n.agent = agent.Config{
		Store: st, Node: name, Local: s, Conditions: n.known, Logger: log,
		Identity: fleet.Identity{Labels: l, Version: "v1", Control: "127.0.0.1:20050"}, Load: func(time.Time) fleet.Load { return fleet.Load{} },
	}
	n.lead = controller.Config{Store: st, Node: name, Conditions: n.known, Logger: log}
	return n, nil
}

const prefix = "/rdmad"

// run is the node's life, until ctx ends.
func (n *node) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { agent.New(n.agent).Run(ctx) })
	both.Go(func() { controller.Run(ctx, n.lead) })
	<-ctx.Done()
	end := time.AfterFunc(5*time.Second, func() { _ = n.store.Close() })
	both.Wait()
	end.Stop()
	_ = n.store.Close()
}

// start runs a node until the test or stop ends it.
func (n *node) start(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { n.run(ctx) })
	stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// of is the configuration of a user of a cluster.
func of(t *testing.T, c *etcdtest.Cluster, user string) store.Config {
	t.Helper()
	secure, err := c.Security(user)
	if err != nil {
		t.Fatal(err)
	}
	return store.Config{Endpoints: c.Endpoints(), TLS: secure}
}

func mustNode(t *testing.T, name, labels, state string, c store.Config) *node {
	t.Helper()
	n, err := newNode(name, labels, state, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// await waits until one of the fleet's conditions has a reason, and returns its message.
func (n *node) await(t *testing.T, name string, want *conditions.Reason) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := n.known.Watch()
	defer w.Close()
	for w.Next(ctx.Done()) {
		if c := n.known.List().Find(conditions.Fleet, name); c != nil && c.Reason == want {
			return c.Message
		}
	}
	for _, c := range n.known.List() {
		t.Logf("%s %s: %s %s", n.name, c.Name, c.Reason.Name, c.Message)
	}
	t.Fatalf("want %s of %s", want.Name, name)
	return ""
}

// apply applies a policy through a node.
func (n *node) apply(ctx context.Context, text string) (fleet.Ref, error) {
	p, err := fleet.ReadPolicy("p.yaml", []byte(text))
	if err != nil {
		return fleet.Ref{}, err
	}
	r, err := n.store.Apply(ctx, fleet.Revision{Policy: *p}, nil, false)
	if err != nil {
		return fleet.Ref{}, err
	}
	return r.Ref, nil
}

// awaitReports waits until ok holds of the reports of all nodes.
func awaitReports(t *testing.T, s *store.Store, names []string, ok func(*fleet.Node) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	watch := s.Client().Watch(ctx, s.StatusKey(""), clientv3.WithPrefix())
	for {
		left := make(map[string]bool, len(names))
		for _, name := range names {
			left[name] = true
		}
		all, _, err := s.AllNodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			if n.Report != nil && ok(n) {
				delete(left, n.Name)
			}
		}
		if len(left) == 0 {
			return
		}
		if _, open := <-watch; !open {
			t.Fatalf("not so of %d nodes: %v", len(left), left)
		}
	}
}

// has is of nodes that have one policy in force.
func has(ref fleet.Ref) func(*fleet.Node) bool {
	return func(n *fleet.Node) bool {
		return len(n.Assigned.Policies) == 1 && n.Assigned.Policies[0] == ref && !n.Drift()
	}
}

const sendMax = "name: small\nsettings: {inline: {send_max: %d}}"

func small(value int) string { return fmt.Sprintf(sendMax, value) }
