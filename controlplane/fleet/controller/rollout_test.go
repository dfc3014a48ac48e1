package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// alive joins a node that applies what it is assigned, and reports often. load is its work under an
// assignment.
func alive(t *testing.T, s *store.Store, name, labels string, load func(*store.Assignment) fleet.Load) {
	t.Helper()
	p := join(t, s, name, labels)
	l, _ := fleet.ParseLabels(labels)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		changes := s.Client().Watch(ctx, s.AssignmentKey(name), clientv3.WithRev(1))
		now, tick := &store.Assignment{}, time.NewTicker(40*time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case res := <-changes:
				for _, e := range res.Events {
					now.Take(e.Kv)
				}
			case <-tick.C:
				_ = p.Report(ctx, &fleet.Identity{Labels: l}, &fleet.Report{Assigned: now.Revision, Applied: now.Revision, Load: load(now)})
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

func idle(*store.Assignment) fleet.Load { return fleet.Load{} }

// worse is the load of a node on which all@2 is bad.
func worse(a *store.Assignment) fleet.Load {
	if slices.Contains(a.Policies, fleet.Ref{Policy: "all", Revision: 2}) {
		return fleet.Load{Errors: 50}
	}
	return fleet.Load{Errors: 2}
}

// quick is a plan whose waves take as long as two reports.
func quick() *fleet.Plan {
	p := fleet.DefaultPlan()
	p.Bake = 0
	return p
}

func rollOut(t *testing.T, s *store.Store, text string, plan *fleet.Plan) fleet.Ref {
	t.Helper()
	p, err := fleet.ReadPolicy("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Apply(t.Context(), fleet.Revision{Policy: *p}, plan, false)
	if err != nil {
		t.Fatal(err)
	}
	return r.Ref
}

// until waits until a rollout is so, and returns it.
func until(t *testing.T, s *store.Store, ref fleet.Ref, so func(*fleet.Rollout) bool) (r *fleet.Rollout) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.WatchRollout(ctx, ref, func(now *fleet.Rollout) (bool, error) {
		r = now
		return !so(now), nil
	})
	if err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	return r
}

// assignments are those of nodes, in short.
func assignments(t *testing.T, s *store.Store, nodes ...string) string {
	t.Helper()
	var all []string
	for _, node := range nodes {
		a, err := s.Assignment(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(node, a.Policies)
		if a.ConfirmWithin != 0 {
			text += " unconfirmed"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// A good rollout comes to all nodes; a bad one is taken back, and is a condition until there is
// another revision.
func TestRollouts(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	for _, name := range []string{"a", "b", "c"} {
		alive(t, s, name, "rack=r"+name, idle)
	}
	alive(t, s, "d", "rack=ra", worse)
	c := runWith(t, e, "a", func(c *one) { c.wrote = func() error { return assignedBeforeBaking(t, s) } })
	one := rollOut(t, s, "name: all\nsettings: {credits: {max: 9}}", quick())
	if r := until(t, s, one, (*fleet.Rollout).Settled); r.State != fleet.Done || len(r.Waves) != 3 {
		t.Errorf("%+v", r)
	}
	two := rollOut(t, s, "name: all\nsettings: {credits: {max: 10}}", quick())
	r := until(t, s, two, (*fleet.Rollout).Settled)
	if r.State != fleet.RolledBack || r.Reason != "d: 50.0 errors per second, 2.0 before (max_errors_per_second is 1 more)" || r.Previous != 1 {
		t.Errorf("%+v", r)
	}
	if got, want := assignments(t, s, "a", "b", "c", "d"), "a[all@1], b[all@1], c[all@1], d[all@1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := changes(t, s), `: rdmad:  -> all@1: all nodes; priority 0; global credits.max=9
a: rdmad: rollout all@1: RUNNING -> rollout all@1: DONE
: rdmad: all@1: all nodes; priority 0; global credits.max=9 -> all@2: all nodes; priority 0; global credits.max=10
a: rdmad: rollout all@2: RUNNING -> rollout all@2: HALTED (d: 50.0 errors per second, 2.0 before (max_errors_per_second is 1 more))
a: rdmad: rollout all@2: HALTED (d: 50.0 errors per second, 2.0 before (max_errors_per_second is 1 more)) -> rollout all@2: ROLLED_BACK (d: 50.0 errors per second, 2.0 before (max_errors_per_second is 1 more))`; got != want {
		t.Errorf("the history has\n%s\nwant\n%s", got, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := c.Conditions.Watch()
	defer w.Close()
	halted := func() *conditions.Condition { return c.Conditions.List().Find(conditions.Rollout, "all@2") }
	for got := halted(); got == nil || got.Reason != conditions.RolloutRolledBack; got = halted() {
		if !w.Next(ctx.Done()) {
			t.Fatalf("%v", c.Conditions.List())
		}
	}
	three := rollOut(t, s, "name: all\nsettings: {credits: {max: 9}}", quick())
	until(t, s, three, (*fleet.Rollout).Settled)
	for halted() != nil {
		if !w.Next(ctx.Done()) {
			t.Fatalf("%v", c.Conditions.List())
		}
	}
	all, err := s.Versions(t.Context(), "all")
	if err != nil || len(all) != 3 || all[0].Revision != 3 {
		t.Errorf("%v %v", all, err)
	}
}

// assignedBeforeBaking checks after a write of the controller that no wave bakes before its nodes
// are assigned the change.
func assignedBeforeBaking(t *testing.T, s *store.Store) error {
	all, err := s.AllRollouts(t.Context(), "")
	for _, r := range all {
		for _, w := range r.Waves {
			if w.State != fleet.WaveBaking {
				continue
			}
			for _, node := range w.Nodes {
				a, err := s.Assignment(t.Context(), node)
				if err == nil && !slices.Contains(a.Policies, r.Ref) {
					t.Errorf("wave %v of %s bakes, and %s is assigned %v", w.Nodes, r.Ref, node, a.Policies)
				}
			}
		}
	}
	return err
}

// An operator pauses, resumes and aborts while the controller works.
func TestOperatorsChangeRollouts(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	for _, name := range []string{"a", "b", "c"} {
		alive(t, s, name, "", idle)
	}
	run(t, e, "a")
	ref := rollOut(t, s, "name: all\nsettings: {credits: {max: 9}}", quick())
	do := func(change func(*fleet.Rollout, string, time.Time) (*fleet.Rollout, error)) {
		t.Helper()
		if _, err := s.ChangeRollout(t.Context(), ref, func(r *fleet.Rollout) (*fleet.Rollout, error) { return change(r, "alice", time.Now()) }); err != nil {
			t.Fatal(err)
		}
	}
	do((*fleet.Rollout).Pause)
	p, err := fleet.ReadPolicy("p.yaml", []byte("name: other\nsettings: {inline: {send_max: 2048}}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), fleet.Revision{Policy: *p}, nil, false); !errors.As(err, new(*fleet.ActiveError)) {
		t.Error(err)
	}
	do((*fleet.Rollout).Resume)
	until(t, s, ref, func(r *fleet.Rollout) bool { return r.Waves[0].State == fleet.WaveDone })
	do((*fleet.Rollout).Abort)
	if r := until(t, s, ref, (*fleet.Rollout).Settled); r.State != fleet.Aborted || r.Waves[0].State != fleet.WaveTakenBack {
		t.Errorf("%+v", r)
	}
	if got, want := changes(t, s), "\na: rdmad: rollout all@1: ABORTED (aborted by alice) -> rollout all@1: ABORTED, taken back (aborted by alice)"; !strings.HasSuffix(got, want) {
		t.Errorf("the history has\n%s\nwant at its end%s", got, want)
	}
	if got, want := assignments(t, s, "a", "b", "c"), "a[], b[], c[]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// done is a rollout as it is to be next.
func done(r *fleet.Rollout) *fleet.Rollout {
	next := *r
	next.State = fleet.Done
	return &next
}

// changes are those of the history, the oldest first.
func changes(t *testing.T, s *store.Store) string {
	t.Helper()
	list, _, err := s.History(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range slices.Backward(list) {
		all = append(all, fmt.Sprintf("%s: %s: %s -> %s", e.Node, e.Actor, e.Before, e.After))
	}
	return strings.Join(all, "\n")
}

// A wave that begins in the future, by the clock of the controller before, lasts no longer.
func TestClockOfTheControllerBefore(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	alive(t, s, "a", "", idle)
	ref := rollOut(t, s, "name: all\nsettings: {credits: {max: 9}}", quick())
	_, err := s.ChangeRollout(t.Context(), ref, func(r *fleet.Rollout) (*fleet.Rollout, error) {
		r.Waves[0].State, r.Waves[0].Since = fleet.WaveBaking, time.Now().Add(time.Hour)
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, e, "a")
	if r := until(t, s, ref, (*fleet.Rollout).Settled); r.State != fleet.Done {
		t.Errorf("%+v", r)
	}
}

// A rollout that can't be read stops the controller, and nothing changes.
func TestUnreadableRollout(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	alive(t, s, "a", "", idle)
	c := run(t, e, "a")
	c.await(t, conditions.FleetLeads)
	for _, garbage := range []string{"garbage", `{"id":"all@7","policy":"all","revision":7,"state":"RUNNING"}`, `{"id":"all@8","policy":"all","revision":7}`, `{"colour":"red"}`} {
		e.Put(t, "/rdmad/rollout/all@7", garbage)
		if got := c.await(t, conditions.FleetUnreadable); !strings.HasPrefix(got, "key /rdmad/rollout/all@7 can't be read: ") {
			t.Error(got)
		}
		if _, err := s.Apply(t.Context(), fleet.Revision{Policy: fleet.Policy{Name: "x"}}, nil, false); !errors.As(err, new(*store.ValueError)) {
			t.Error(err)
		}
		e.Do(t, clientv3.OpDelete("/rdmad/rollout/all@7"))
		c.await(t, conditions.FleetLeads)
	}
}

var errKilled = errors.New("killed by the test")

// The controller dies right after each of its writes in turn; another one takes over, and the
// rollouts end in the same way.
func TestDiesAfterEachWrite(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	for _, name := range []string{"a", "b", "c"} {
		alive(t, s, name, "", idle)
	}
	alive(t, s, "d", "", worse)
	var writes, deaths atomic.Int32
	dies := func(c *one) { // at every second write
		c.wrote = func() error {
			if writes.Add(1)%2 == 0 {
				deaths.Add(1)
				return errKilled
			}
			return nil
		}
	}
	runWith(t, e, "a", dies)
	runWith(t, e, "b", dies)
	good := rollOut(t, s, "name: all\nsettings: {credits: {max: 9}}", quick())
	if r := until(t, s, good, (*fleet.Rollout).Settled); r.State != fleet.Done {
		t.Errorf("%+v", r)
	}
	bad := rollOut(t, s, "name: all\nsettings: {credits: {max: 10}}", quick())
	if r := until(t, s, bad, (*fleet.Rollout).Settled); r.State != fleet.RolledBack {
		t.Errorf("%+v", r)
	}
	if got, want := assignments(t, s, "a", "b", "c", "d"), "a[all@1], b[all@1], c[all@1], d[all@1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Each step is in the history once, whichever controller made it.
	history := changes(t, s)
	for _, step := range []string{"all@1: DONE", "all@2: HALTED (", "all@2: ROLLED_BACK ("} {
		if strings.Count(history, "-> rollout "+step) != 1 {
			t.Errorf("%q is not once in the history\n%s", step, history)
		}
	}
	if deaths.Load() < 5 {
		t.Errorf("%d deaths", deaths.Load())
	}
}

// An operator's change and the controller's don't overwrite one another.
func TestRolloutWritesAreFenced(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	join(t, s, "a", "")
	ref := rollOut(t, s, "name: all\nsettings: {credits: {max: 9}}", quick())
	e.Put(t, "/rdmad/election/controller/1", "a")
	fence := store.Fence{Key: "/rdmad/election/controller/1", Revision: e.Do(t, clientv3.OpGet("/rdmad/election/controller/1")).Get().Kvs[0].CreateRevision}
	read, err := s.Rollout(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ChangeRollout(t.Context(), ref, func(r *fleet.Rollout) (*fleet.Rollout, error) { return r.Pause("", time.Now()) }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StepRollout(t.Context(), fence, read, done(read)); !errors.Is(err, store.ErrRace) {
		t.Error(err)
	}
	if read, err = s.Rollout(t.Context(), ref); err != nil || read.State != fleet.Paused {
		t.Fatal(read, err)
	}
	if _, err := s.StepRollout(t.Context(), fence, read, read); err != nil {
		t.Error(err)
	}
	e.Do(t, clientv3.OpDelete("/rdmad/election/controller/1"))
	if read, err = s.Rollout(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StepRollout(t.Context(), fence, read, done(read)); !errors.Is(err, store.ErrDeposed) {
		t.Error(err)
	}
	if got, want := changes(t, s), ": rdmad:  -> all@1: all nodes; priority 0; global credits.max=9\n: rdmad: rollout all@1: RUNNING -> rollout all@1: PAUSED (paused)"; got != want {
		t.Errorf("the history has\n%s\nwant\n%s", got, want)
	}
}
