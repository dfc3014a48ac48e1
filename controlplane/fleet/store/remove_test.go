package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

// A node that is down is removed, with an entry in the history; one that is up, or not there, is
// not.
func TestRemoveNode(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	p, err := s.Join(t.Context(), "a", &fleet.Identity{}, 600)
	if err != nil {
		t.Fatal(err)
	}
	e.Put(t, "/rdmad/status/a", `{"labels":{"role":"gateway"}}`)
	e.Put(t, "/rdmad/assign/a", `{"policies":["p@1"]}`)
	e.Put(t, "/rdmad/status/ab", "garbage")
	if err := s.RemoveNode(t.Context(), "a"); !errors.As(err, new(*store.UpError)) || e.Get(t, "/rdmad/status/a") == "" {
		t.Error(err)
	}
	for _, name := range []string{"x", "", "a/b"} {
		if err := s.RemoveNode(t.Context(), name); !errors.As(err, new(*store.NoNodeError)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	p.Leave(t.Context())
	if err := s.RemoveNode(t.Context(), "a"); err != nil || e.Get(t, "/rdmad/status/a") != "" || e.Get(t, "/rdmad/assign/a") != "" || e.Get(t, "/rdmad/status/ab") == "" {
		t.Error(err)
	}
	if err := s.RemoveNode(t.Context(), "ab"); err != nil || e.Get(t, "/rdmad/status/ab") != "" {
		t.Error(err)
	}
	list, _, err := s.History(t.Context(), 0, 10)
	if err != nil || len(list) != 2 || list[1].Before != "node a: role=gateway" || list[1].After != "" || list[0].Before != "node ab" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Changes at the same time all have a number of their own.
func TestHistoryCountsEachChange(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	var wg sync.WaitGroup
	const nodes = 4 // fewer than the attempts of a change
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		e.Put(t, "/rdmad/status/"+name, "{}")
	}
	for i := range nodes {
		wg.Go(func() {
			if err := s.RemoveNode(t.Context(), fmt.Sprintf("n%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, _, err := s.History(t.Context(), 0, 100)
	if err != nil || len(list) != nodes || list[0].Number != nodes {
		t.Errorf("%d changes in the history, %v", len(list), err)
	}
}

// Nodes that come, and are removed, don't fill a view, however many they are.
func TestViewForgetsRemovedNodes(t *testing.T) {
	s, err := store.New(store.Config{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/rdmad"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	v, revision := fleet.NewView(), int64(0)
	for i := range fleet.MaxNodes + 1 {
		name := fmt.Sprintf("n%d", i)
		for _, gone := range []bool{false, true} {
			for _, key := range []string{s.NodeKey(name), s.StatusKey(name), s.AssignmentKey(name)} {
				revision++
				kv := &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}
				if !gone {
					kv.Value = []byte("{}")
				}
				if err := s.Take(v, kv, gone, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(v.Members) != 0 {
		t.Errorf("%d nodes are left", len(v.Members))
	}
}
