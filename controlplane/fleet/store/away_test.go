package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

// soon is a context that ends later than it says, so that a busy machine may take long.
type soon struct {
	context.Context
	end time.Time
}

func (s soon) Deadline() (time.Time, bool) { return s.end, true }

// A client that waits for less time than etcd or a node has gets the answer within its time.
func TestAnswersInTheClientsTime(t *testing.T) {
	e := etcdtest.Start(t)
	s, err := store.New(store.Config{Endpoints: []string{e.Endpoint}, Prefix: "/rdmad", Node: "n1", Answers: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.Join(t.Context(), "hangs", &fleet.Identity{}, 60); err != nil {
		t.Fatal(err)
	}
	in := func(what string, says, ends time.Duration, request func(ctx context.Context)) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), ends)
		defer cancel()
		if request(soon{ctx, time.Now().Add(says)}); ctx.Err() != nil {
			t.Errorf("%s: no answer within %v", what, says)
		}
	}
	r := revision(t, "name: p\nsettings: {}")
	in("dry run", 4*time.Second, time.Minute, func(ctx context.Context) {
		all, err := s.DryRun(ctx, &r)
		if err != nil || len(all) != 1 || all[0].Answer != fleet.NoAnswer {
			t.Errorf("%+v, %v", all, err)
		}
	})
	e.Kill(t)
	for _, c := range []struct {
		what    string
		request func(ctx context.Context) error
	}{
		{"nodes", func(ctx context.Context) error { _, _, err := s.AllNodes(ctx); return err }}, // goes on without the client
		{"apply", func(ctx context.Context) error { _, err := s.Apply(ctx, r, nil, false); return err }},
		{"remove", func(ctx context.Context) error { return s.RemoveNode(ctx, "x") }},
	} {
		in(c.what, store.Timeout/2, store.Timeout*9/10, func(ctx context.Context) {
			if err := c.request(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", c.what, err)
			}
		})
	}
}

// Values as large as etcd takes them are left out where they are only shown.
func TestLargeValues(t *testing.T) {
	e := etcdtest.Start(t)
	s := open(t, e)
	if _, err := s.Join(t.Context(), "n1", &fleet.Identity{}, 60); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 1<<20)
	e.Put(t, "/rdmad/status/large", `{"version":"`+large+`"}`)
	e.Put(t, "/rdmad/node/large", `{"version":"`+large+`"}`)
	e.Put(t, "/rdmad/audit/00000000000000000001", `{"actor":"`+large+`"}`)
	all, problems, err := s.AllNodes(t.Context())
	if err != nil || len(all) != 1 || len(problems) != 2 || problems[0].Error() != "key /rdmad/node/large can't be read: it has 1048590 bytes, more than 262144" {
		t.Errorf("%+v, %v, %v", all, problems, err)
	}
	if list, _, err := s.History(t.Context(), 0, 10); err != nil || len(list) != 1 || list[0].Err == nil {
		t.Errorf("%+v, %v", list, err)
	}
}
