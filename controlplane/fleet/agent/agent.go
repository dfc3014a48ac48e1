// Package agent makes this rdmad a node of a fleet: it joins, reads the node's assignment, has
// it applied, and reports.
//
// Nothing waits for etcd. Every error of etcd is a condition, after which the agent tries
// again. Meanwhile, and over a restart, the settings stay as they are.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// Times of a node.
const (
	DefaultTTL   = 15 * time.Second // of the lease
	DefaultEvery = 5 * time.Second  // between two reports, give or take a fifth
	silentAfter  = 4                // times Every without a word of the watch
)

// Local applies assignments. It is a desired.Store.
type Local interface {
	// Assign puts a layer in force. A confirmWithin of 0 means no confirm window.
	Assign(f settings.FleetLayer, confirmWithin time.Duration) (_ desired.Result, ok bool, err error)
	// PreviewFleet returns what Assign would do.
	PreviewFleet(settings.FleetLayer) (desired.FleetPreview, error)
	// Fleet returns the layer in force, and the values of operators that override it.
	Fleet() (settings.FleetLayer, []settings.Pin)
}

// Config configures an agent. TTL and Every have defaults.
type Config struct {
	Store    *store.Store
	Node     string
	Identity fleet.Identity // but Since
	Local    Local
	// Conditions has the conditions that are reported, and gets that of the agent.
	Conditions *conditions.Registry
	// Load is the node's work since the last call.
	Load   func(now time.Time) fleet.Load
	Logger *slog.Logger
	TTL    time.Duration // whole seconds
	Every  time.Duration
}

// Agent is one node. Run may be called once.
type Agent struct {
	Config
	seen     *store.Assignment // the newest; nil before one was read
	refused  error             // why seen is not in force
	outcomes fleet.Outcomes
	slow     int // reports in a row for which etcd was slow
	load     fleet.Load
	loadAt   time.Time // end of the interval of load
	stats    stats
	policies map[fleet.Ref]*fleet.Revision // of seen, as far as they were read
	left     *store.Presence               // of the session before; nil before one joined
}

// New makes an agent.
func New(c Config) *Agent {
	c.TTL, c.Every = cmp.Or(c.TTL, DefaultTTL), cmp.Or(c.Every, DefaultEvery)
	a := &Agent{Config: c, loadAt: time.Now()}
	a.stats.now.Errors = make(map[string]uint64)
	for _, r := range conditions.Reasons {
		if r.Kind == conditions.Fleet && r.Status != conditions.OK {
			a.stats.now.Errors[r.Name] = 0
		}
	}
	a.found(conditions.FleetConnecting, "")
	return a
}

// Run joins the fleet and works until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	defer a.Conditions.Remove(conditions.Fleet, a.Node)
	store.Retry(ctx, a.session, func(err error) { a.failed(a.Store.Explain(ctx, err)) })
}

func (a *Agent) found(r *conditions.Reason, message string) {
	a.Conditions.Set(conditions.Finding{Name: a.Node, Reason: r, Message: message})
}

// failed makes an error the node's condition.
func (a *Agent) failed(err error) {
	r := a.reason(err)
	a.stats.failed(r.Name)
	a.Logger.Warn("fleet: not in the fleet", "node", a.Node, "reason", r.Name, "error", err, "remedy", r.Remedy)
	a.found(r, err.Error())
}

var (
	errOther = errors.New("another etcd cluster answers")
	errOlder = errors.New("etcd is at an older revision")
)

func (a *Agent) reason(err error) *conditions.Reason {
	switch {
	case errors.Is(err, errOther):
		return conditions.FleetOtherCluster
	case errors.Is(err, errOlder):
		return conditions.FleetOlder
	}
	return store.Reason(err)
}

// known refuses an answer of another cluster, or of one that lost what is in force here.
func (a *Agent) known(got *store.Assignment) error {
	now, _ := a.Local.Fleet()
	switch {
	case now.Cluster != 0 && now.Cluster != got.Cluster:
		return fmt.Errorf("%w: %x; the settings come from %x", errOther, got.Cluster, now.Cluster)
	case now.Assignment > got.Read, now.Assignment > got.Revision && got.Revision != 0:
		return fmt.Errorf("%w: %d, assignment %d; the assignment in force is %d", errOlder, got.Read, got.Revision, now.Assignment)
	}
	return nil
}
