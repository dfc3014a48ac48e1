package agent

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/conditions"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// candidate reads a policy's file as its revision 9.
func candidate(t *testing.T, text string) *fleet.Revision {
	t.Helper()
	p, err := fleet.ReadPolicy("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &fleet.Revision{Policy: *p, Revision: 9}
}

// dryRun asks the fleet, and returns the answers by node.
func dryRun(t *testing.T, n *node, text string) map[string]*fleet.Effects {
	t.Helper()
	all, err := n.Store.DryRun(t.Context(), candidate(t, text))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]*fleet.Effects)
	for _, e := range all {
		out[e.Node] = e
	}
	return out
}

// patient gives nodes as much time for an answer as await and awaitReport do.
func patient(c store.Config) store.Config {
	c.Answers = time.Minute
	return c
}

// A dry run says what a policy would do on each node that it concerns, changes nothing there,
// and leaves nothing in etcd.
func TestDryRun(t *testing.T) {
	e := etcdtest.Start(t)
	assign(t, e, "global", 1, 2048)
	n := run(t, patient(of(e)), nil)
	n.await(t, conditions.FleetJoined)
	run(t, of(e), func(n *node) { n.Node, n.Identity.Labels = "n2", fleet.Labels{"role": "edge"} }).await(t, conditions.FleetJoined)
	var c settings.Change
	c.Set.Set(live.CreditsMax, 7)
	if _, err := n.settings.Set(c, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	revision := n.settings.Revision()
	for _, c := range []struct {
		policy string
		want   map[string]*fleet.Effects
	}{
		{"name: small\nselector: {role: gateway}\nsettings: {inline: {send_max: 3072}, credits: {max: 9}}", map[string]*fleet.Effects{"n1": {
			Node: "n1", Answer: fleet.Accepted, Outcomes: fleet.Outcomes{Applied: 1},
			Changes: []fleet.Change{{Scope: "global", Key: "inline.send_max", Before: "2048", After: "3072"}},
			Pins:    []string{"global: credits.max is 7, policy small@9 gives 9"},
		}}},
		{"name: small\nselector: {role: lab}\nsettings: {inline: {send_max: 3072}}", map[string]*fleet.Effects{"n1": { // no longer selected
			Node: "n1", Answer: fleet.Accepted, Outcomes: fleet.Outcomes{Applied: 1},
			Changes: []fleet.Change{{Scope: "global", Key: "inline.send_max", Before: "2048", After: "4096"}},
		}}},
		{"name: low\npriority: -1\nselector: {role: gateway}\nsettings: {inline: {send_max: 3072, receive_size: 8KiB}}", map[string]*fleet.Effects{"n1": {
			Node: "n1", Answer: fleet.Accepted, Outcomes: fleet.Outcomes{PendingReconnect: 1},
			Changes: []fleet.Change{{Scope: "global", Key: "inline.receive_size", Before: "4096", After: "8192"}},
		}}},
		{"name: edges\nselector: {role: edge}\nscopes: {listener/other: {inline: {send_max: 3072}}}", map[string]*fleet.Effects{"n2": {
			Node: "n2", Answer: fleet.Refused, Reason: "listener/other: there is no such listener",
		}}},
		{"name: none\nselector: {role: lab}\nsettings: {inline: {send_max: 3072}}", map[string]*fleet.Effects{}},
	} {
		if got := dryRun(t, n, c.policy); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\n%+v\nwant %+v", c.policy, deref(got), deref(c.want))
		}
	}
	n.check(t, 2048)
	if n.settings.Revision() != revision {
		t.Error("a dry run made a revision")
	}
	for _, folder := range []string{"/rdmad/dryrun/", "/rdmad/answer/"} {
		if got := e.Do(t, clientv3.OpGet(folder, clientv3.WithPrefix())).Get(); len(got.Kvs) != 0 {
			t.Errorf("left in etcd: %s", got.Kvs)
		}
	}
}

func deref(all map[string]*fleet.Effects) (out []fleet.Effects) {
	for _, e := range all {
		out = append(out, *e)
	}
	return out
}

// Nodes that are down, or don't answer in time, have a reason instead of effects.
func TestDryRunWithoutAnswer(t *testing.T) {
	e := etcdtest.Start(t)
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetJoined)
	if _, err := n.Store.Join(t.Context(), "mute", &fleet.Identity{}, 600); err != nil {
		t.Fatal(err)
	}
	e.Put(t, "/rdmad/status/down", `{"labels":{"role":"gateway"}}`)
	got := dryRun(t, n, "name: all\nsettings: {credits: {max: 9}}")
	if len(got) != 3 || got["n1"].Answer != fleet.Accepted ||
		got["mute"].Answer != fleet.NoAnswer || got["mute"].Reason != "the node has not answered within 5s" ||
		got["down"].Answer != fleet.NoAnswer || got["down"].Reason != "the node is DOWN" {
		t.Errorf("%+v", deref(got))
	}
}

// ask writes a dry run as another rdmad would, and returns the node's answer.
func ask(t *testing.T, e *etcdtest.Etcd, number int, policy string) string {
	t.Helper()
	lease, err := e.Client().Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("/rdmad/answer/%d/n1", number)
	answers := e.Client().Watch(t.Context(), key)
	e.Do(t, clientv3.OpPut(fmt.Sprintf("/rdmad/dryrun/%d", number), policy, clientv3.WithLease(lease.ID)))
	kv := (<-answers).Events[0].Kv
	if clientv3.LeaseID(kv.Lease) != lease.ID {
		t.Error("the answer would stay when the lease ends")
	}
	return strings.ReplaceAll(string(kv.Value), " ", "")
}

// A policy with fields, keys or values that this rdmad does not know is refused with the reason,
// as a newer rdmad can have written it.
func TestDryRunOfNewerPolicy(t *testing.T) {
	e := etcdtest.Start(t)
	n := run(t, patient(of(e)), nil)
	n.await(t, conditions.FleetJoined)
	for i, c := range [][2]string{
		{`{"name":"new","revision":1,"colour":"red"}`, `unknownfield\"colour\"`},
		{`{"name":"new","revision":1,"scopes":[{"scope":"global","settings":{"inline":{"speed":7}}}]}`, `unknownfield\"speed\"`},
		{`{"name":"new","revision":1,"scopes":[{"scope":"global","settings":{"credits":{"policy":"SOON"}}}]}`, "SOON"},
		{`{"name":"new","revision":1,"scopes":[{"scope":"global","settings":{"credits":{"max":9999999}}}]}`, "credits.max"},
		{`{"name":"new","revision":1,"scopes":[{"scope":"rack/7","settings":{"credits":{"max":9}}}]}`, "rack/7"},
		{`garbage`, "syntaxerror"},
	} {
		if got := ask(t, e, i+1, c[0]); !strings.Contains(got, `"answer":"REFUSED"`) || !strings.Contains(got, c[1]) {
			t.Errorf("%s: %s", c[0], got)
		}
	}
	// One that would stay for ever is not answered, and the node goes on.
	e.Put(t, "/rdmad/dryrun/stays", `{"name":"all","revision":1,"scopes":[{"scope":"global","settings":{"credits":{"max":9}}}]}`)
	if got := dryRun(t, n, "name: all\nsettings: {credits: {max: 9}}"); got["n1"].Answer != fleet.Accepted {
		t.Errorf("%+v", deref(got))
	}
	if got := e.Get(t, "/rdmad/answer/stays/n1"); got != "" {
		t.Error(got)
	}
}
