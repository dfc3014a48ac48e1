package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/peer"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, e *etcdtest.Etcd) *store.Store {
	t.Helper()
	s, err := store.New(store.Config{Endpoints: []string{e.Endpoint}, Prefix: "/rdmad", Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func revision(t *testing.T, text string) fleet.Revision {
	t.Helper()
	p, err := fleet.ReadPolicy("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return fleet.Revision{Policy: *p, Comment: "why"}
}

func apply(ctx context.Context, t *testing.T, s *store.Store, text string) {
	t.Helper()
	if _, err := s.Apply(ctx, revision(t, text), nil, false); err != nil {
		t.Fatal(err)
	}
}

// A change is in the history if it is in etcd: who changed what, through which node, the newest
// first. Refused changes and dry runs are not.
func TestHistory(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	alice := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: auth.Info{Identity: auth.Identity{Name: "alice", Origin: "192.0.2.7:1001", Role: auth.Operator}}})
	apply(alice, t, s, "name: small\nselector: {role: gateway}\nsettings: {inline: {send_max: 2048}}")
	apply(alice, t, s, "name: small\npriority: 7\nscopes: {listener/nfs: {credits: {max: 9}}}")
	apply(t.Context(), t, s, "name: other\npriority: 1\nsettings: {}")
	if _, err := s.Apply(alice, revision(t, "name: clash\npriority: 7\nscopes: {listener/nfs: {credits: {max: 8}}}"), nil, false); !errors.As(err, new(*fleet.ConflictError)) {
		t.Error(err)
	}
	if _, err := s.Apply(alice, revision(t, "name: dry\nsettings: {}"), nil, true); err != nil {
		t.Error(err)
	}
	var got []string
	for before := uint64(0); ; {
		list, more, err := s.History(t.Context(), before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			if one.Time.IsZero() || one.Err != nil {
				t.Errorf("%+v", one)
			}
			got = append(got, fmt.Sprintf("%d %s (%s, %s) through %s: %s -> %s", one.Number, one.Actor, one.Role, one.Origin, one.Node, one.Before, one.After))
			before = one.Number
		}
		if !more {
			break
		}
	}
	want := `3 rdmad (none, ) through n1:  -> other@1: all nodes; priority 1 (why)
2 alice (operator, 192.0.2.7:1001) through n1: small@1: role=gateway; priority 0; global inline.send_max=2048 (why) -> small@2: all nodes; priority 7; listener/nfs credits.max=9 (why)
1 alice (operator, 192.0.2.7:1001) through n1:  -> small@1: role=gateway; priority 0; global inline.send_max=2048 (why)`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// The history is bounded. Garbage in it is an entry that names the key, and changes go on.
func TestHistoryIsBounded(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	for n := range store.KeptChanges {
		e.Put(t, fmt.Sprintf("/rdmad/audit/%020d", n+1), fmt.Sprintf(`{"sequence":%d}`, n+1))
	}
	e.Put(t, "/rdmad/audit/99999999999999999999", "garbage")
	e.Put(t, "/rdmad/audit/x", "garbage")
	e.Put(t, fmt.Sprintf("/rdmad/audit/%020d", 7), "garbage")
	for n := range 3 {
		apply(t.Context(), t, s, fmt.Sprintf("name: p%d\nsettings: {}", n))
	}
	list, more, err := s.History(t.Context(), 0, 2*store.KeptChanges)
	if err != nil || more || len(list) != store.KeptChanges || list[0].Number != store.KeptChanges+3 || list[len(list)-1].Number != 4 {
		t.Fatalf("%d changes, more %v, %v", len(list), more, err)
	}
	if bad := list[len(list)-4]; bad.Number != 7 || bad.Err == nil || !strings.HasPrefix(bad.Err.Error(), "key /rdmad/audit/00000000000000000007 can't be read") {
		t.Errorf("%+v", bad)
	}
}

// Pages of the history end also if keys between its changes are garbage without a number.
func TestHistoryWithOtherKeys(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	for n := range 3 {
		e.Put(t, fmt.Sprintf("/rdmad/audit/%020d", n+1), fmt.Sprintf(`{"sequence":%d}`, n+1))
		e.Put(t, fmt.Sprintf("/rdmad/audit/%020dx", n+1), "garbage")
	}
	var got []uint64
	before, more := uint64(0), true
	for more && len(got) < 10 {
		list, left, err := s.History(t.Context(), before, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			got, before = append(got, one.Number), one.Number
		}
		more = left
	}
	if want := []uint64{3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Garbage with the last number ends the history, but no changes.
func TestHistoryIsFull(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	e.Put(t, "/rdmad/audit/00009007199254740991", "garbage")
	for range 2 {
		apply(t.Context(), t, s, "name: p\nsettings: {}")
	}
	if list, _, err := s.History(t.Context(), 0, 10); err != nil || len(list) != 1 || list[0].Err == nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// Changes at the same time all have a number of their own.
func TestHistoryCountsEachPolicy(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 8 {
		wg.Go(func() {
			_, err := s.Apply(t.Context(), revision(t, fmt.Sprintf("name: p%d\nsettings: {}", i)), nil, false)
			if err != nil && !errors.Is(err, store.ErrRace) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			}
		})
	}
	wg.Wait()
	policies := e.Do(t, clientv3.OpGet("/rdmad/policy/", clientv3.WithPrefix())).Get().Count
	if list, _, err := s.History(t.Context(), 0, 100); err != nil || len(list) != done || int(policies) != done || done == 0 || list[0].Number != uint64(done) {
		t.Errorf("%d done, %d stored, %d in the history, %v", done, policies, len(list), err)
	}
}
