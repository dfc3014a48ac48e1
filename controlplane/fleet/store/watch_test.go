package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

// watch follows the nodes until it has seen all texts, in their order, and returns the position.
func watch(t *testing.T, s *store.Store, from store.Position, do func(), want ...string) (at store.Position) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := errors.New("done")
	var seen []string
	err := s.WatchNodes(ctx, from, func(c *store.NodeChanges) error {
		at = c.At
		var texts []string
		for _, n := range c.Nodes {
			text := fmt.Sprintf("%s up=%v labels=%s assigned=%v", n.Name, n.Up, n.Labels, n.Assigned.Policies)
			if n.Report != nil {
				text += fmt.Sprintf(" calls=%v", n.Report.Load.Calls)
			}
			texts = append(texts, text)
		}
		for _, name := range c.Gone {
			texts = append(texts, "gone "+name)
		}
		for _, problem := range c.Problems {
			texts = append(texts, problem.Error())
		}
		text := strings.Join(texts, "; ")
		if c.Listed {
			text = "listed: " + text
		}
		seen = append(seen, text)
		if do != nil && len(seen) == 1 {
			do()
		}
		rest := seen
		for _, w := range want {
			i := slices.IndexFunc(rest, func(s string) bool { return strings.Contains(s, w) })
			if i < 0 {
				return nil
			}
			rest = rest[i+1:]
		}
		return done
	})
	if !errors.Is(err, done) {
		t.Fatalf("%v; saw\n%s\nwant\n%s", err, strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	return at
}

// A watch has all nodes, then each change. It resumes where it was, and lists again if etcd no
// longer knows what changed, or is another one.
func TestWatchNodes(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	e.Put(t, "/rdmad/node/a", `{"labels":{"rack":"r1"}}`)
	e.Put(t, "/rdmad/assign/b", `{"policies":["p@1"]}`)
	e.Put(t, "/rdmad/node/c", "garbage")
	at := watch(t, s, store.Position{}, func() {
		e.Put(t, "/rdmad/status/a", `{"labels":{"rack":"r1"},"calls_per_second":7}`)
		e.Put(t, "/rdmad/policy/p@1", "not a key of a node")
	},
		"listed: a up=true labels=rack=r1 assigned=[]; b up=false labels= assigned=[p@1]; key /rdmad/node/c can't be read",
		"a up=true labels=rack=r1 assigned=[] calls=7")

	e.Do(t, clientv3.OpDelete("/rdmad/node/a"))
	e.Do(t, clientv3.OpDelete("/rdmad/assign/b"))
	middle := watch(t, s, at, func() { e.Put(t, "/rdmad/status/d/e", "garbage") },
		"a up=false labels=rack=r1 assigned=[] calls=7; gone b", "key /rdmad/status/d/e can't be read")
	now := e.Do(t, clientv3.OpGet("x")).Get().Header
	if middle.Revision != now.Revision || middle.Cluster != now.ClusterId {
		t.Errorf("%+v, etcd is at %d", middle, now.Revision)
	}
	if _, err := e.Client().Compact(t.Context(), now.Revision); err != nil {
		t.Fatal(err)
	}
	for _, from := range []store.Position{at, {Cluster: at.Cluster + 1, Revision: now.Revision}, {Cluster: at.Cluster, Revision: 1e6}} {
		watch(t, s, from, func() { e.Put(t, "/rdmad/node/b", "{}") }, "listed: a up=false", "b up=true")
		e.Do(t, clientv3.OpDelete("/rdmad/node/b"))
	}
	e.Put(t, "/rdmad/node/c", "{}")
	e.Put(t, "/rdmad/status/c", "{}")
	watch(t, s, store.Position{}, func() { e.Do(t, clientv3.OpDelete("/rdmad/node/c")) }, "c up=true", "c up=false")
	watch(t, s, store.Position{}, func() { e.Do(t, clientv3.OpDelete("/rdmad/status/c")) }, "c up=false", "gone c")
}

// The position of a step never goes past a change that is still to come.
func TestWatchResumesAnywhere(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	from, err := e.Client().Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	const changes = 3000 // more than etcd sends at once
	for i := range changes {
		e.Put(t, fmt.Sprintf("/rdmad/assign/n%d", i), "{}")
	}
	seen := make(map[string]bool)
	stop := errors.New("stop")
	for at := (store.Position{Cluster: from.Header.ClusterId, Revision: from.Header.Revision}); len(seen) < changes; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := s.WatchNodes(ctx, at, func(c *store.NodeChanges) error {
			for _, n := range c.Nodes {
				seen[n.Name] = true
			}
			if c.Listed || c.At.Revision <= at.Revision {
				t.Errorf("step to %+v after %+v", c.At, at)
			}
			at = c.At
			return stop // as a client that loses its connection after each step
		})
		cancel()
		if !errors.Is(err, stop) {
			t.Fatalf("%v after %d of %d changes", err, len(seen), changes)
		}
	}
}

// A rollout that has not changed for longer than etcd keeps old revisions can be watched: one that
// bakes or is paused for hours.
func TestWatchRolloutAfterCompaction(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	r := revision(t, "name: small\nsettings: {}")
	begun, err := s.Apply(t.Context(), r, fleet.DefaultPlan(), false)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		e.Put(t, "/rdmad/status/a", "{}")
	}
	now := e.Do(t, clientv3.OpGet("x")).Get().Header
	if _, err := e.Client().Compact(t.Context(), now.Revision); err != nil {
		t.Fatal(err)
	}
	var seen []string
	err = s.WatchRollout(t.Context(), begun.Ref, func(r *fleet.Rollout) (bool, error) {
		seen = append(seen, r.State.String())
		if len(seen) > 1 {
			return false, nil
		}
		_, err := s.ChangeRollout(t.Context(), r.Ref, func(r *fleet.Rollout) (*fleet.Rollout, error) { return r.Pause("alice", time.Now()) })
		return true, err
	})
	if want := []string{"RUNNING", "PAUSED"}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("%v, %v, want %v", seen, err, want)
	}
}

// The end of a watch is no end of the rollout: a script that waits for a rollout would go on.
func TestWatchRolloutOfAClosedStore(t *testing.T) {
	s := open(t, etcdtest.Start(t))
	begun, err := s.Apply(t.Context(), revision(t, "name: small\nsettings: {}"), fleet.DefaultPlan(), false)
	if err != nil {
		t.Fatal(err)
	}
	err = s.WatchRollout(t.Context(), begun.Ref, func(*fleet.Rollout) (bool, error) { return true, s.Close() })
	if err == nil {
		t.Error("no error, but the rollout is RUNNING")
	}
}
