package controller

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/agent"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/rpcrdma"
)

// rdmad runs node a and a controller, with common conditions.
func rdmad(t *testing.T, e *etcdtest.Etcd) *one {
	t.Helper()
	defaults := rpcrdma.DefaultSettings()
	plane := &planetest.Plane{}
	s, err := desired.New(plane, slog.New(slog.DiscardHandler), &defaults, 0)
	if err != nil {
		t.Fatal(err)
	}
	plane.Use(s.Resolve)
	c := run(t, e, "a")
	a := agent.New(agent.Config{
		Store: c.Store, Node: "a", Local: s, Conditions: c.Conditions, Logger: c.Logger, TTL: 5 * time.Second, Every: 100 * time.Millisecond,
		Load: func(time.Time) fleet.Load { return fleet.Load{} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { a.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return c
}

// awaitText waits until a condition of the fleet says something; for "" until all conditions are
// OK and there is a controller.
func (c *one) awaitText(t *testing.T, what, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := c.Conditions.Watch()
	defer w.Close()
	for w.Next(ctx.Done()) {
		all := c.Conditions.List()
		bad := all.NotOK()
		if want == "" && len(bad) == 0 && all.Find(conditions.Fleet, name) != nil {
			return
		}
		for _, one := range bad {
			if len(one.Message) > 2000 {
				t.Fatalf("%s: a message of %d bytes", what, len(one.Message))
			}
			if want != "" && strings.Contains(one.Message, want) {
				return
			}
		}
	}
	t.Fatalf("%s: %+v, want %q", what, c.Conditions.List(), want)
}

// garbage are values that no key of the fleet has.
var garbage = map[string]string{
	"bytes":      "\xff\xfe\x00garbage",
	"wrong type": `[7]`,
	"empty":      "",
	"large":      strings.Repeat("x", 1<<20),
}

// Garbage under the prefix is a condition that names its key. Node and controller go on, and the
// condition is gone with the key.
func TestGarbage(t *testing.T) {
	e := etcdtest.Start(t)
	s := newStore(t, e)
	c := rdmad(t, e)
	apply(t, s, "name: all\nsettings: {credits: {max: 9}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@1"]}`)
	c.awaitText(t, "at first", "")
	for _, key := range []string{
		"node/a", "node/b", "node/b/c", "node/", "policy/b@1", "policy/b", "policy/all@2", "rollout/b@1", "rollout/b", "rollout/all@2",
		"assign/b", "assign/b/c", "status/b", "status/b/c", "election/controller/7", "election/controller", "election/b",
		"audit/7", "audit/00000000000000000500", "dryrun/7", "answer/7/a", "answer/7", "answer/7/b/c", "history/7", "b", "", "\xff\xfe", strings.Repeat("b", 1<<17),
	} {
		for kind, value := range garbage {
			what, want := fmt.Sprintf("%s under %.20q", kind, key), "key /rdmad/"+strings.ToValidUTF8(key, "\uFFFD")+" can't be read: "
			e.Put(t, "/rdmad/"+key, value)
			c.awaitText(t, what, want[:min(len(want), 200)])
			e.Do(t, clientv3.OpDelete("/rdmad/"+key))
			c.awaitText(t, what+", gone", "")
		}
	}
	// The keys that this node and the controller write are written anew.
	for _, key := range []string{"assign/a", "status/a"} {
		for kind, value := range garbage {
			e.Put(t, "/rdmad/"+key, value)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			for e.Get(t, "/rdmad/"+key) == value {
				if ctx.Err() != nil {
					t.Fatalf("%s under %s stays", kind, key)
				}
			}
			cancel()
			c.awaitText(t, kind+" under "+key, "")
		}
	}
	apply(t, s, "name: all\nsettings: {credits: {max: 10}}")
	awaitKey(t, e, "/rdmad/assign/a", `{"policies":["all@2"]}`)
	c.awaitText(t, "in the end", "")
}

// Garbage that was there before rdmad is named too, and so is a key for which nobody can be elected.
func TestGarbageFromBefore(t *testing.T) {
	e := etcdtest.Start(t)
	all := []string{"election/controller/7", "node/a", "answer/7/a", "assign/b", "status/b"}
	for _, key := range all {
		e.Put(t, "/rdmad/"+key, "garbage")
	}
	c := rdmad(t, e)
	c.awaitText(t, "node", "key /rdmad/node/a can't be read: ")
	c.awaitText(t, "candidate", "key /rdmad/election/controller/7 can't be read: no rdmad can be elected: ")
	if got := c.Conditions.List().Find(conditions.Fleet, name); got != nil {
		t.Errorf("elected: %v", got)
	}
	for _, key := range all {
		e.Do(t, clientv3.OpDelete("/rdmad/"+key))
		if key == all[0] {
			c.awaitText(t, "controller", "key /rdmad/answer/7/a can't be read: the key's name is not that of its lease: it would stay for ever; and 3 more keys")
		}
	}
	c.awaitText(t, "gone", "")
}

// TestKeyIsLoggedOnce: reports come every few seconds. A key that can't be read has a line in the log when it is found,
// and another one when it could be read meanwhile.
func TestKeyIsLoggedOnce(t *testing.T) {
	var log logtest.Log
	c := &Config{Store: storeOf(t, &etcdtest.Etcd{Endpoint: "127.0.0.1:1"}, "a"), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	w := &term{Config: c, view: fleet.NewView(), unreadable: make(map[string]error), leftOut: make(map[string]error)}
	for i, value := range []string{"garbage", "other garbage", "{}", "garbage", "garbage"} {
		w.take(&mvccpb.KeyValue{Key: []byte("/rdmad/status/b"), Value: []byte(value), ModRevision: int64(i + 1)}, false)
	}
	if lines := log.Lines("a key is left out", "/rdmad/status/b"); len(lines) != 2 || len(w.leftOut) != 1 {
		t.Errorf("%d lines, want 2:\n%s", len(lines), log.String())
	}
}
