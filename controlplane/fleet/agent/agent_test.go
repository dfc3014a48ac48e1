package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/conditions"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func applied(revision int64) func(*fleet.Node) bool {
	return func(n *fleet.Node) bool { return n.Report.Applied >= revision && n.Report.Applied == n.Assigned.At }
}

// A node joins, applies what it is assigned before and after it joined, reports, and leaves.
func TestNodeAppliesItsAssignment(t *testing.T) {
	e := etcdtest.Start(t)
	assign(t, e, "global", 1, 2048)
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetJoined)
	n.check(t, 2048)
	got := awaitReport(t, n.Store, "n1", applied(1))
	if !got.Up || got.Labels.String() != "role=gateway" || got.Version != "v1" || got.Control != "127.0.0.1:20050" || got.Drift() || !got.Healthy() ||
		got.Report.Outcomes != (fleet.Outcomes{Applied: 1}) || len(got.Assigned.Policies) != 1 || got.Assigned.Policies[0].String() != "small@1" {
		t.Errorf("%+v, report %+v", got, got.Report)
	}
	// The first interval is over at the latest with the second report.
	awaitReport(t, n.Store, "n1", func(n *fleet.Node) bool {
		return n.Report.Load == fleet.Load{Calls: 7, Errors: 0.5, P99: time.Millisecond, Connections: 2}
	})
	assign(t, e, "listener/nfs", 2, 3072)
	awaitReport(t, n.Store, "n1", applied(got.Assigned.At+1))
	n.check(t, 3072)

	// An operator's value wins over the fleet's, and the report has it as drift.
	var c settings.Change
	c.Scope = settings.Scope{Kind: settings.Listener, Name: "nfs"}
	c.Set.Set(live.InlineSendMax, 1024)
	if _, err := n.settings.Set(c, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	n.check(t, 1024)
	got = awaitReport(t, n.Store, "n1", (*fleet.Node).Drift)
	if pins := got.Report.Pins; len(pins) != 1 || pins[0] != "listener/nfs: inline.send_max is 1024, policy small@2 gives 3072" {
		t.Errorf("%q", pins)
	}
	if s := n.Stats(time.Now()); !s.Joined || !s.Drift || s.Assigned != got.Assigned.At || s.Applied != got.Assigned.At || s.Lag != 0 {
		t.Errorf("%+v", s)
	}
	presence := e.Do(t, clientv3.OpGet("/rdmad/node/n1")).Get().Kvs[0]
	if presence.Lease == 0 || e.Do(t, clientv3.OpGet("/rdmad/status/n1")).Get().Kvs[0].Lease != 0 {
		t.Error("not the presence alone has a lease")
	}
	n.stop()
	if n.Stats(time.Now()).Joined {
		t.Error("joined after it left")
	}
	if e.Get(t, "/rdmad/node/n1") != "" || n.condition() != nil {
		t.Error("the node has not left")
	}
}

// The second rdmad with a name is refused, applies nothing, and joins when the first has left.
func TestNameIsTaken(t *testing.T) {
	e := etcdtest.Start(t)
	first := run(t, of(e), nil)
	first.await(t, conditions.FleetJoined)
	second := run(t, of(e), func(n *node) { n.Identity.Control = "127.0.0.2:20050" })
	if got := second.await(t, conditions.FleetNameTaken); !strings.HasPrefix(got, "another rdmad has the name n1, with control address 127.0.0.1:20050, since 2") {
		t.Error(got)
	}
	assign(t, e, "global", 1, 2048)
	awaitReport(t, first.Store, "n1", applied(1))
	second.check(t, 4096)
	first.stop()
	second.await(t, conditions.FleetJoined)
	second.check(t, 2048)
}

// Without etcd a node keeps what it has, from the start on, and comes back by itself.
func TestEtcdAway(t *testing.T) {
	e := etcdtest.Start(t)
	assign(t, e, "global", 1, 2048)
	e.Kill(t)
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetAway)
	n.check(t, 4096)
	e.Run(t)
	n.await(t, conditions.FleetJoined)
	n.check(t, 2048)
	e.Kill(t)
	n.await(t, conditions.FleetAway)
	n.check(t, 2048)
	if s := n.Stats(time.Now()); s.Joined || s.Errors["Unreachable"] == 0 {
		t.Errorf("%+v", s)
	}
	e.Run(t)
	n.await(t, conditions.FleetJoined)
	assign(t, e, "global", 2, 3072)
	awaitReport(t, n.Store, "n1", func(n *fleet.Node) bool {
		return len(n.Assigned.Policies) == 1 && n.Assigned.Policies[0].Revision == 2 && !n.Drift()
	})
	n.check(t, 3072)
}

// A node whose lease is lost joins again.
func TestLeaseIsLost(t *testing.T) {
	e := etcdtest.Start(t)
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetJoined)
	before := e.Do(t, clientv3.OpGet("/rdmad/node/n1")).Get().Kvs[0]
	if _, err := e.Client().Revoke(t.Context(), clientv3.LeaseID(before.Lease)); err != nil {
		t.Fatal(err)
	}
	for range e.Client().Watch(t.Context(), "/rdmad/node/n1", clientv3.WithRev(before.ModRevision+1)) {
		if now := e.Do(t, clientv3.OpGet("/rdmad/node/n1")).Get(); len(now.Kvs) == 1 && now.Kvs[0].CreateRevision > before.CreateRevision {
			break
		}
	}
	n.await(t, conditions.FleetJoined)
}

// A node that comes back while etcd still has its presence does not take itself for another one.
func TestComesBackBeforeItsLeaseEnds(t *testing.T) {
	e := etcdtest.Start(t)
	n := run(t, of(e), func(n *node) { n.TTL = time.Hour })
	n.await(t, conditions.FleetJoined)
	e.Kill(t)
	n.await(t, conditions.FleetAway)
	e.Run(t)
	n.await(t, conditions.FleetJoined)
}

// An assignment that can't be applied is refused whole, with the reason in the report; the
// node goes on with what it has, and applies it when the cause is gone.
func TestRefusedAssignments(t *testing.T) {
	e := etcdtest.Start(t)
	assign(t, e, "global", 1, 2048)
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetJoined)
	refused := func(reason *conditions.Reason, want string) {
		t.Helper()
		got := awaitReport(t, n.Store, "n1", func(n *fleet.Node) bool { return strings.Contains(n.Report.Refused, want) })
		if !got.Drift() || got.Healthy() {
			t.Errorf("%+v", got)
		}
		if message := n.await(t, reason); !strings.Contains(message, want) {
			t.Errorf("%q, want %q", message, want)
		}
		n.check(t, 2048)
	}
	assign(t, e, "listener/other", 2, 3072)
	refused(conditions.FleetNotApplied, "listener/other: there is no such listener")
	if s := n.Stats(time.Now().Add(time.Hour)); !s.Drift || s.Assigned <= s.Applied || s.Lag < time.Hour/2 {
		t.Errorf("%+v", s)
	}
	n.plane.Listen("other", "127.0.0.1:20059")
	n.await(t, conditions.FleetJoined)
	assign(t, e, "global", 3, 2048)
	awaitReport(t, n.Store, "n1", func(n *fleet.Node) bool { return n.Assigned.Policies[0].Revision == 3 && !n.Drift() })

	assign(t, e, "global", 4, 1)
	refused(conditions.FleetUnreadable, "key /rdmad/policy/small@4 can't be read: inline.send_max: must be between 1024 and 262144 bytes (is 1)")
	e.Put(t, "/rdmad/policy/small@5", `{"name":"small","revision":5,"colour":"red"}`)
	e.Put(t, "/rdmad/assign/n1", `{"policies":["small@5"]}`)
	refused(conditions.FleetUnreadable, `unknown field "colour"`)
	e.Put(t, "/rdmad/assign/n1", `{"policies":["small@99"]}`)
	refused(conditions.FleetNotApplied, "policy small@99 is not in etcd")
	for _, garbage := range []string{"", "\xff\xfe", "[]", `{"policies":["small"]}`, `{"policies":["a/b@1"]}`, `{"policies":[7]}`} {
		e.Put(t, "/rdmad/assign/n1", garbage)
		refused(conditions.FleetUnreadable, "key /rdmad/assign/n1 can't be read")
	}
	e.Do(t, clientv3.OpDelete("/rdmad/assign/n1")) // nothing is refused any more
	n.await(t, conditions.FleetJoined)
	n.check(t, 2048)
	e.Put(t, "/rdmad/policy/small@6", `{"name":"large","revision":6}`)
	e.Put(t, "/rdmad/assign/n1", `{"policies":["small@6"]}`)
	refused(conditions.FleetUnreadable, "the value is that of policy large@6")
	assign(t, e, "global", 7, 3072)
	n.await(t, conditions.FleetJoined)
	n.check(t, 3072)
}

// verbose refuses every assignment, with a long text.
type verbose struct{ Local }

func (verbose) Assign(settings.FleetLayer, time.Duration) (desired.Result, bool, error) {
	return desired.Result{}, false, errors.New(strings.Repeat("no. ", 1<<20))
}

// A report has room for any reason of a refusal, as etcd takes no value of 4 MiB.
func TestLongRefusal(t *testing.T) {
	e := etcdtest.Start(t)
	assign(t, e, "global", 1, 2048)
	n := run(t, of(e), func(n *node) { n.Local = verbose{n.Local} })
	got := awaitReport(t, n.Store, "n1", func(*fleet.Node) bool { return true })
	if text := got.Report.Refused; !strings.HasPrefix(text, "no. no. ") || len(text) > 1024 {
		t.Errorf("refused with %d bytes", len(text))
	}
}

// Data that are older than what is in force, or of another cluster, change nothing.
func TestOlderAndOtherClusters(t *testing.T) {
	e := etcdtest.Start(t)
	assign(t, e, "global", 1, 2048)
	cluster := e.Do(t, clientv3.OpGet("x")).Get().Header.ClusterId
	for _, c := range []struct {
		layer  settings.FleetLayer
		reason *conditions.Reason
	}{
		{settings.FleetLayer{Cluster: cluster + 1, Assignment: 1}, conditions.FleetOtherCluster},
		{settings.FleetLayer{Cluster: cluster, Assignment: 1e6}, conditions.FleetOlder},
	} {
		n := run(t, of(e), func(n *node) {
			if _, _, err := n.Local.Assign(c.layer, 0); err != nil {
				t.Fatal(err)
			}
		})
		n.await(t, c.reason)
		n.check(t, 4096)
		n.stop()
	}
}

// A fleet that begins anew in the same etcd has policies with the names and revisions of before. A
// node takes their new settings.
func TestFleetBeginsAnew(t *testing.T) {
	e := etcdtest.Start(t)
	assign(t, e, "global", 1, 2048)
	n := run(t, of(e), nil)
	got := awaitReport(t, n.Store, "n1", applied(1))
	n.check(t, 2048)
	e.Do(t, clientv3.OpDelete("/rdmad/", clientv3.WithPrefix()))
	assign(t, e, "global", 1, 3072)
	awaitReport(t, n.Store, "n1", applied(got.Assigned.At+1))
	n.check(t, 3072)
}

// A node that refused an assignment, and has nothing in force, takes those of an etcd that begins
// anew, whose revisions are smaller.
func TestEtcdBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	c, err := etcdtest.Launch(t.Context(), dir, etcdtest.Options{Members: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e := &etcdtest.Etcd{Cluster: c, Endpoint: c.Endpoints()[0]}
	for range 100 {
		e.Put(t, "filler", "")
	}
	assign(t, e, "listener/other", 1, 2048)
	n := run(t, of(e), nil)
	n.await(t, conditions.FleetNotApplied)
	e.Kill(t)
	n.await(t, conditions.FleetAway)
	if err := os.RemoveAll(filepath.Join(dir, c.Members[0].Name)); err != nil {
		t.Fatal(err)
	}
	e.Run(t)
	assign(t, e, "global", 1, 3072)
	awaitReport(t, n.Store, "n1", applied(1))
	n.check(t, 3072)
}
