package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is a controller.
type one struct {
	Config
	stop func()
}

func run(t *testing.T, e *etcdtest.Etcd, node string) *one {
	t.Helper()
	return runWith(t, e, node, func(*one) {})
}

func runWith(t *testing.T, e *etcdtest.Etcd, node string, change func(*one)) *one {
	t.Helper()
	c := &one{Config: Config{
		Store: storeOf(t, e, node), Node: node, Conditions: conditions.NewRegistry(), Logger: slog.New(slog.DiscardHandler), TTL: 2 * time.Second,
	}}
	change(c)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { Run(ctx, c.Config) })
	c.stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(c.stop)
	return c
}

func newStore(t *testing.T, e *etcdtest.Etcd) *store.Store {
	t.Helper()
	return storeOf(t, e, "")
}

func storeOf(t *testing.T, e *etcdtest.Etcd, node string) *store.Store {
	t.Helper()
	s, err := store.New(store.Config{Endpoints: []string{e.Endpoint}, Prefix: "/rdmad", Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// await waits for a reason of the controller's condition, and returns the message.
func (c *one) await(t *testing.T, want *conditions.Reason) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := c.Conditions.Watch()
	defer w.Close()
	for w.Next(ctx.Done()) {
		if got := c.Conditions.List().Find(conditions.Fleet, name); got != nil && got.Reason == want {
			return got.Message
		}
	}
	t.Fatalf("%v, want %s", c.Conditions.List(), want.Name)
	return ""
}

// awaitKey waits until a key has a value.
func awaitKey(t *testing.T, e *etcdtest.Etcd, key, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from := e.Do(t, clientv3.OpGet(key)).Get().Header.Revision + 1
	watch := e.Client().Watch(ctx, key, clientv3.WithRev(from))
	for {
		if strings.ReplaceAll(e.Get(t, key), " ", "") == want {
			return
		}
		if _, ok := <-watch; !ok {
			t.Fatalf("%s is %s, want %s", key, e.Get(t, key), want)
		}
	}
}

func join(t *testing.T, s *store.Store, node, labels string) *store.Presence {
	t.Helper()
	l, err := fleet.ParseLabels(labels)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Join(t.Context(), node, &fleet.Identity{Labels: l}, 600)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apply(t *testing.T, s *store.Store, text string) uint32 {
	t.Helper()
	p, err := fleet.ReadPolicy("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Apply(t.Context(), fleet.Revision{Policy: *p}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}

// Nodes are assigned what policies and labels say, as both come and go.
func TestAssignmentsFollow(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	a := join(t, s, "a", "role=gateway")
	run(t, e, "a").await(t, conditions.FleetLeads)
	apply(t, s, "name: small\nselector: {role: gateway}\nsettings: {inline: {send_max: 2048}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["small@1"]}`)
	apply(t, s, "name: all\npriority: -1\nsettings: {credits: {max: 9}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@1","small@1"]}`)
	join(t, s, "b", "role=edge")
	awaitKey(t, e, "/rdmad/assign/b", `{"policies":["all@1"]}`)
	if got := apply(t, s, "name: small\nselector: {role: edge}\nsettings: {inline: {send_max: 2048}}"); got != 2 {
		t.Errorf("revision %d", got)
	}
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@1"]}`)
	awaitKey(t, e, "/rdmad/assign/b", `{"policies":["all@1","small@2"]}`)
	a.Leave(t.Context())
	apply(t, s, "name: all\nsettings: {}")
	awaitKey(t, e, "/rdmad/assign/b", `{"policies":["small@2"]}`)
	if got := e.Get(t, "/rdmad/assign/a"); !strings.Contains(got, "all@1") {
		t.Errorf("of a node that is down: %s", got)
	}
	p := join(t, s, "a", "role=gateway")
	awaitKey(t, e, "/rdmad/assign/a", `{}`)

	// A node that was removed is assigned anew when it comes back.
	apply(t, s, "name: gateways\nselector: {role: gateway}\nsettings: {inline: {send_max: 2048}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["gateways@1"]}`)
	p.Leave(t.Context())
	if err := s.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	join(t, s, "a", "role=gateway")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["gateways@1"]}`)
}

// When the controller ends or dies, another one goes on with what was changed meanwhile.
func TestAnotherController(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	join(t, s, "a", "")
	first := run(t, e, "a")
	first.await(t, conditions.FleetLeads)
	second := run(t, e, "b")
	apply(t, s, "name: all\nsettings: {credits: {max: 9}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@1"]}`)
	if second.Conditions.List().Find(conditions.Fleet, name) != nil {
		t.Error("two controllers")
	}
	first.stop()
	second.await(t, conditions.FleetLeads)
	apply(t, s, "name: all\nsettings: {credits: {max: 10}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@2"]}`)

	// A third is elected when the lease of the second ends without its knowing.
	third := run(t, e, "c")
	keys := e.Do(t, clientv3.OpGet("/rdmad/election/", clientv3.WithPrefix())).Get().Kvs
	for _, kv := range keys {
		if string(kv.Value) == "b" {
			if _, err := e.Client().Revoke(t.Context(), clientv3.LeaseID(kv.Lease)); err != nil {
				t.Fatal(err)
			}
		}
	}
	third.await(t, conditions.FleetLeads)
	apply(t, s, "name: all\nsettings: {credits: {max: 11}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@3"]}`)
}

// A controller that lost its election writes nothing.
func TestWritesAreFenced(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	e.Put(t, "/rdmad/election/controller/1", "a")
	won := e.Do(t, clientv3.OpGet("/rdmad/election/controller/1")).Get().Kvs[0].CreateRevision
	fence := store.Fence{Key: "/rdmad/election/controller/1", Revision: won}
	all := map[string]fleet.Assignment{"a": {Policies: []fleet.Ref{{Policy: "p", Revision: 1}}}, "b": {}}
	if n, _, err := s.Assign(t.Context(), fence, []string{"a", "b"}, all); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	e.Do(t, clientv3.OpDelete("/rdmad/election/controller/1"))
	e.Put(t, "/rdmad/election/controller/1", "a") // elected again, later
	all["a"] = fleet.Assignment{}
	if _, _, err := s.Assign(t.Context(), fence, []string{"a"}, all); !errors.Is(err, store.ErrDeposed) {
		t.Error(err)
	}
	if got := e.Get(t, "/rdmad/assign/a"); !strings.Contains(got, "p@1") {
		t.Errorf("%s", got)
	}
}

// Nodes with hundreds of policies of long names each need more than one transaction: etcd takes requests of 1.5 MiB.
func TestManyPoliciesOnManyNodes(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	e.Put(t, "/rdmad/election/controller/1", "a")
	won := e.Do(t, clientv3.OpGet("/rdmad/election/controller/1")).Get().Kvs[0].CreateRevision
	fence := store.Fence{Key: "/rdmad/election/controller/1", Revision: won}
	var a fleet.Assignment
	for i := range fleet.MaxPolicies {
		a.Policies = append(a.Policies, fleet.Ref{Policy: fmt.Sprintf("policy-%056d", i), Revision: math.MaxUint32})
	}
	all := make(map[string]fleet.Assignment)
	for i := range 64 {
		all[fmt.Sprintf("node-%02d", i)] = a
	}
	for nodes := slices.Sorted(maps.Keys(all)); len(nodes) > 0; {
		n, _, err := s.Assign(t.Context(), fence, nodes, all)
		if n == 0 || err != nil {
			t.Fatal(n, err)
		}
		nodes = nodes[n:]
	}
	for node := range all {
		if got, err := s.Assignment(t.Context(), node); err != nil || got.Err != nil || !slices.Equal(got.Policies, a.Policies) {
			t.Fatalf("%s: %d policies, %v, %v", node, len(got.Policies), err, got.Err)
		}
	}
}

// An unreadable policy is a condition that names its key. Until it is put right, assignments
// stay as they are.
func TestUnreadablePolicy(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	join(t, s, "a", "")
	apply(t, s, "name: all\nsettings: {credits: {max: 9}}")
	e.Put(t, "/rdmad/policy/all@2", `{"name":"all","revision":2,"newer":true}`)
	e.Put(t, "/rdmad/node/garbage", "garbage")
	c := run(t, e, "a")
	if got := c.await(t, conditions.FleetUnreadable); !strings.HasPrefix(got, "key /rdmad/policy/all@2 can't be read: ") {
		t.Error(got)
	}
	if got := e.Get(t, "/rdmad/assign/a"); got != "" {
		t.Errorf("assigned: %s", got)
	}
	e.Do(t, clientv3.OpDelete("/rdmad/policy/all@2"))
	c.await(t, conditions.FleetLeads)
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@1"]}`)
	e.Put(t, "/rdmad/policy/all@7", "garbage")
	c.await(t, conditions.FleetUnreadable)
	e.Do(t, clientv3.OpDelete("/rdmad/policy/all@7"))
	c.await(t, conditions.FleetLeads)
}

// Two policies that conflict are never both stored, however they race.
func TestConflictsNeverRaceIn(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			p, err := fleet.ReadPolicy("p.yaml", fmt.Appendf(nil, "name: p%d\nsettings: {credits: {max: %d}}", i, i+1))
			if err == nil {
				_, err = s.Apply(t.Context(), fleet.Revision{Policy: *p}, nil, false)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	good := 0
	for _, err := range errs {
		switch {
		case err == nil:
			good++
		case !errors.Is(err, store.ErrRace) && !errors.As(err, new(*fleet.ConflictError)):
			t.Error(err)
		}
	}
	if all, _, err := s.AllPolicies(t.Context()); good != 1 || err != nil || len(all) != 1 {
		t.Errorf("%d accepted, %d stored, %v", good, len(all), err)
	}
}

// etcd keeps a bounded number of a policy's revisions.
func TestOldRevisionsGo(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	for i := range store.KeptRevisions + 3 {
		if got := apply(t, s, fmt.Sprintf("name: all\nsettings: {credits: {max: %d}}", i+1)); got != uint32(i+1) {
			t.Fatalf("revision %d", got)
		}
	}
	all, _, err := s.AllPolicies(t.Context())
	if err != nil || len(all) != store.KeptRevisions {
		t.Errorf("%d revisions, %v", len(all), err)
	}
}
