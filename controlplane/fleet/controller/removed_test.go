package controller

import (
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// Gates compare a node with its own reports, not with those of a node that had its name and was
// removed.
func TestRemovedNodeIsForgotten(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	report := func(p *store.Presence, load fleet.Load) {
		t.Helper()
		if err := p.Report(t.Context(), &fleet.Identity{Labels: fleet.Labels{"role": "a"}}, &fleet.Report{Load: load}); err != nil {
			t.Fatal(err)
		}
	}
	before := join(t, s, "a", "role=a")
	report(before, fleet.Load{Errors: 50})
	run(t, e, "c").await(t, conditions.FleetLeads)
	before.Leave(t.Context())
	if err := s.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	now := join(t, s, "a", "role=a")
	join(t, s, "b", "role=b")
	rollOut(t, s, "name: all\nselector: {role: a}\nsettings: {credits: {max: 9}}", quick())
	apply(t, s, "name: other\nselector: {role: b}\nsettings: {credits: {max: 9}}")
	awaitKey(t, e, "/rdmad/assign/b", `{"policies":["other@1"]}`) // the controller has seen the rollout
	report(now, fleet.Load{Errors: 2})
	until(t, s, fleet.Ref{Policy: "all", Revision: 1}, func(r *fleet.Rollout) bool { return r.Waves[0].State == fleet.WaveApplying })
	for got := (&store.Assignment{}); got.Before == nil || got.Before.Errors != 2; {
		var err error
		if got, err = s.Assignment(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got.Before != nil && got.Before.Errors != 2 {
			t.Fatalf("%v errors per second before the rollout, want 2", got.Before.Errors)
		}
	}
}

// A node that is left out, because there are too many, gets its policies once an operator has removed another one.
func TestRoomForANodeThatWasLeftOut(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	var ops []clientv3.Op
	for i := range fleet.MaxNodes {
		ops = append(ops, clientv3.OpPut(s.StatusKey(fmt.Sprintf("n%d", i)), "{}"))
	}
	for some := range slices.Chunk(ops, 128) { // more are too many for etcd
		if _, err := e.Client().Txn(t.Context()).Then(some...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	c := run(t, e, "c")
	c.await(t, conditions.FleetLeads)
	apply(t, s, "name: all\nsettings: {credits: {max: 9}}")
	p := join(t, s, "new", "")
	c.awaitText(t, "one node too many", "no more than 16384 nodes")
	if err := s.RemoveNode(t.Context(), "n7"); err != nil {
		t.Fatal(err)
	}
	if err := p.Report(t.Context(), &fleet.Identity{}, &fleet.Report{}); err != nil {
		t.Fatal(err)
	}
	awaitKey(t, e, "/rdmad/assign/new", `{"policies":["all@1"]}`)
	c.awaitText(t, "room", "")
}
