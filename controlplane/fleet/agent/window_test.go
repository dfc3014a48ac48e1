package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// try writes a policy, and an assignment of it with a confirm window.
func try(t *testing.T, e *etcdtest.Etcd, revision, value int, window string) {
	t.Helper()
	e.Put(t, fmt.Sprintf("/rdmad/policy/small@%d", revision), fmt.Sprintf(small, "global", value, revision))
	e.Put(t, "/rdmad/assign/n1", fmt.Sprintf(`{"policies":["small@%d"],"confirm_within":%q,"rollout":"small@%d","before":{"errors_per_second":1.5}}`, revision, window, revision))
}

// An assignment that nobody confirms is taken back, without etcd too. The node says so, and stays
// with what it had until there is another assignment.
func TestUnconfirmedIsTakenBack(t *testing.T) {
	for name, away := range map[string]bool{"with etcd": false, "without etcd": true} {
		t.Run(name, func(t *testing.T) {
			e := etcdtest.Start(t)
			assign(t, e, "global", 1, 2048)
			n := run(t, of(e), nil)
			n.await(t, conditions.FleetJoined)
			w, err := n.settings.Watch()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			try(t, e, 2, 1024, "2s")
			<-w.Events() // in force; a busy machine may be past the window by now
			if got := n.sendMax(t); got != 1024 && n.settings.Pending() != nil {
				t.Errorf("inline.send_max is %d, want 1024", got)
			}
			if away {
				e.Kill(t)
			}
			for n.settings.Pending() != nil {
				<-w.Events()
			}
			n.check(t, 2048)
			if away {
				e.Run(t)
			}
			got := awaitReport(t, n.Store, "n1", func(n *fleet.Node) bool { return strings.Contains(n.Report.Refused, "was not confirmed in time") })
			if !got.Drift() {
				t.Errorf("%+v", got)
			}
			n.await(t, conditions.FleetNotApplied)
			n.check(t, 2048)
			try(t, e, 3, 3072, "3600s")
			got = awaitReport(t, n.Store, "n1", func(n *fleet.Node) bool {
				return len(n.Assigned.Policies) == 1 && n.Assigned.Policies[0].Revision == 3 && !n.Drift()
			})
			if got.Report.Outcomes.Applied != 1 {
				t.Errorf("%+v", got.Report.Outcomes)
			}
			assign(t, e, "global", 3, 3072) // the same without a window confirms
			got = awaitReport(t, n.Store, "n1", applied(got.Assigned.At+1))
			if n.settings.Pending() != nil || got.Report.Outcomes.Applied != 1 {
				t.Errorf("%+v waits; outcomes %+v", n.settings.Pending(), got.Report.Outcomes)
			}
			n.check(t, 3072)
		})
	}
}
