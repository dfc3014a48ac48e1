package console_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// nodes is a fleet of three nodes. One is down, one has drift and a condition. The
// second wave of a rollout is under way.
type nodes struct {
	grpcapi.Fleet
	mu      sync.Mutex
	rollout *fleet.Rollout
}

func newNodes() *nodes {
	now := time.Now()
	return &nodes{rollout: &fleet.Rollout{
		Ref: fleet.Ref{Policy: "small", Revision: 2}, State: fleet.Running, Plan: fleet.DefaultPlan(), Author: "olga", Previous: 1, Began: now,
		Waves: []fleet.Wave{
			{Nodes: []string{"gateway-1"}, State: fleet.WaveDone, Since: now},
			{Nodes: []string{"gateway-2"}, State: fleet.WaveBaking, Since: now},
			{Nodes: []string{"edge-1"}},
		},
	}}
}

func (n *nodes) AllRollouts(context.Context, string) ([]*fleet.Rollout, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return []*fleet.Rollout{n.rollout}, nil
}

func (n *nodes) ChangeRollout(_ context.Context, _ fleet.Ref, change func(*fleet.Rollout) (*fleet.Rollout, error)) (*fleet.Rollout, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next, err := change(n.rollout)
	if err == nil {
		n.rollout = next
	}
	return next, err
}

func (*nodes) AllNodes(context.Context) ([]*fleet.Node, []error, error) {
	now := time.Now()
	node := func(name, role string, r fleet.Report) *fleet.Node {
		r.Assigned, r.Time = 7, now
		return &fleet.Node{
			Name: name, Identity: fleet.Identity{Labels: fleet.Labels{"role": role, "site": "berlin"}, Version: "v1.2.3", Control: "192.0.2.1:20050", Since: now},
			Up: true, Assigned: fleet.Assigned{Assignment: fleet.Assignment{Policies: []fleet.Ref{{Policy: "small", Revision: 2}}}, At: 7}, Report: &r,
		}
	}
	one := node("gateway-1", "gateway", fleet.Report{Applied: 7, Outcomes: fleet.Outcomes{Applied: 12, PendingReconnect: 3}})
	two := node("gateway-2", "gateway", fleet.Report{Applied: 6, Pins: []string{"credits.max=32 at global, policy small@2 has 64"}, Conditions: []fleet.Condition{
		{Kind: "upstream", Name: "nfs", Status: "DEGRADED", Reason: "Unreachable", Message: "192.0.2.9 does not answer", Remedy: "start the NFS server", Since: now},
	}})
	three := node("edge-1", "edge", fleet.Report{Applied: 7})
	three.Up = false
	return []*fleet.Node{three, one, two}, []error{errors.New("status/edge-9 is not JSON")}, nil
}

func (*nodes) Newest(context.Context) ([]*fleet.Revision, error) {
	term, err := fleet.ParseTerm("role=gateway")
	if err != nil {
		return nil, err
	}
	var small live.Values
	small.Set(live.InlineSendMax, 2048)
	return []*fleet.Revision{{
		Policy:   fleet.Policy{Name: "small", Selector: fleet.Selector{term}, Settings: map[settings.Scope]live.Values{{}: small}},
		Revision: 2, Author: "olga", Comment: "less memory", Time: time.Now(),
	}}, nil
}

// TestFleetView: nodes by label, one node with its drift and conditions, and policies.
func TestFleetView(t *testing.T) {
	p := open(t, auth.Viewer, func(p *page) { p.fleet = newNodes() })
	p.do("all", clickLink("Fleet"), text("h1", "Fleet"), text("caption", "Nodes of the fleet: 3"), text(".totals div", "Down1"), text(".totals div", "With drift1"),
		text(".bad li", "status/edge-9"), text("td", "small@2"), text("td li", "inline.send_max=2048 at global"), text("td", "role=gateway"))
	p.do("by label", fill("#by", "role"),
		text("caption", "role=edge: 1"), text("caption", "role=gateway: 2"))
	p.do("one", clickLink("gateway-2"), text("h2", "gateway-2"), text("li", "credits.max=32 at global"), text("td", "start the NFS server"), text("code", "rdmactl fleet show gateway-2"))
	p.do("none", p.navigate("#/fleet/nobody"), text(".bad", "The fleet has no node nobody"))
}

// TestWithoutFleet: there is no link, and the view says why it is empty.
func TestWithoutFleet(t *testing.T) {
	p := open(t, auth.Viewer)
	p.do("no link", p.navigate("#/fleet"), text("#alarm", "not in a fleet"), text("main", "Go to the overview"), holds("document.querySelector('nav a[href=\"#/fleet\"]').hidden"))
}

// TestRollout: its waves and gates, and what an operator does with it.
func TestRollout(t *testing.T) {
	p := open(t, auth.Operator, func(p *page) { p.fleet = newNodes() })
	p.do("list", p.navigate("#/fleet"), text("td", "1 of 3 done"), clickLink("small@2"), text("h2", "Rollout small@2"))
	p.do("waves", text("td", "BAKING"), text("td", "PENDING"), text("li", "watched for 5 min 0 s"), text("li", "a p99 of more than 2 times"), text("td a", "gateway-2"))
	p.do("pause", text("code", "rdmactl fleet rollouts pause small@2"), click("Pause the rollout"), text("strong", "PAUSED"))
	p.do("resume", click("Resume the rollout"), text("strong", "RUNNING"))
	p.do("abort, but not", click("Abort the rollout"), text("dialog[open]", "Its nodes take the change back"), text("dialog code", "rdmactl fleet rollouts abort small@2"), click("Cancel"),
		holds("!document.getElementById('dialog').open"), click("Pause the rollout"), text("strong", "PAUSED"))
	p.do("abort", click("Abort the rollout"), click("Abort"), holds("!document.getElementById('dialog').open"), text("strong", "ABORTED"), holds("!document.querySelector('main button:not(.copy)')"))
	p.do("another", p.navigate("#/fleet/rollouts/small@9"), text(".bad", "The fleet has no rollout small@9"))
}

// lost is a fleet whose etcd does not answer.
type lost struct{ grpcapi.Fleet }

func (lost) AllNodes(context.Context) ([]*fleet.Node, []error, error) {
	return nil, nil, context.DeadlineExceeded
}

func (lost) Newest(context.Context) ([]*fleet.Revision, error) { return nil, context.DeadlineExceeded }

func (lost) AllRollouts(context.Context, string) ([]*fleet.Rollout, error) {
	return nil, context.DeadlineExceeded
}

// TestFleetWithoutEtcd: the view says that etcd is away, not rdmad.
func TestFleetWithoutEtcd(t *testing.T) {
	p := open(t, auth.Viewer, func(p *page) { p.fleet = lost{} })
	p.do("away", p.navigate("#/fleet"), text("[role=alert]", "etcd: "), text("main", "rdmad serves without etcd"), holds("document.getElementById('alarm').hidden"))
}

// TestFleetConfirms: what the fleet gives waits for its controller. Operators can only take it back.
func TestFleetConfirms(t *testing.T) {
	p := open(t, auth.Operator)
	var v settings.FleetValues
	v.Values.Set(live.CreditsMax, 7)
	if _, _, err := p.control.Settings.Assign(settings.FleetLayer{Cluster: 1, Assignment: 1, Scopes: map[settings.Scope]settings.FleetValues{{}: v}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	p.do("it waits", p.navigate("#/settings"), text("#confirm", "Revision 1 waits for the fleet's controller."),
		holds("![...document.querySelectorAll('#confirm button')].some((b) => b.textContent === 'Keep')"), click("Take back"), text("#notice", "Revision 1 is taken back."))
}
