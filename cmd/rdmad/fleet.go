package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/agent"
	"github.com/rdmad/rdmad/controlplane/fleet/controller"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/metrics"
)

// membership is this rdmad's part in a fleet. A nil membership is that of none.
type membership struct {
	store   *store.Store
	cfg     *config.Fleet
	agent   atomic.Pointer[agent.Agent] // nil before start
	nodes   atomic.Pointer[map[string]int]
	known   *conditions.Registry
	cancel  context.CancelFunc // nil before start
	running sync.WaitGroup
}

// newMembership does not wait for etcd.
func newMembership(c *config.Fleet, known *conditions.Registry) (*membership, error) {
	if c == nil {
		return nil, nil
	}
	secure, err := fleetTLS(c.TLS)
	if err != nil {
		return nil, fmt.Errorf("fleet.tls: %w", err)
	}
	s, err := store.New(store.Config{Endpoints: c.Endpoints, TLS: secure, Prefix: c.Prefix, Node: c.Node})
	if err != nil {
		return nil, err
	}
	return &membership{store: s, cfg: c, known: known}, nil
}

// fleetTLS returns the TLS configuration for etcd. The certificate is read again for each
// connection, so that a renewed one needs no restart.
func fleetTLS(t *config.FleetTLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
		return nil, err
	}
	roots, err := auth.ReadCAs(t.CA)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			return &c, err
		},
	}, nil
}

// api returns the fleet for the control plane.
func (m *membership) api() grpcapi.Fleet {
	if m == nil {
		return nil
	}
	return m.store
}

// start begins to take part.
func (m *membership) start(control *controlplane.Controlplane, counters telemetry.Counters, log *slog.Logger) {
	if m == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	a := agent.New(agent.Config{
		Store: m.store, Node: m.cfg.Node, Local: control.Settings, Conditions: m.known, Logger: log, Load: fleetLoad(counters),
		Identity: fleet.Identity{Labels: m.cfg.ByName(), Version: versionString(), Control: control.Addr()},
	})
	m.agent.Store(a)
	m.running.Go(func() { a.Run(ctx) })
	m.running.Go(func() { m.census(ctx) })
	m.running.Go(func() {
		controller.Run(ctx, controller.Config{Store: m.store, Node: m.cfg.Node, Conditions: m.known, Logger: log})
	})
}

// measure is for the metrics.
func (m *membership) measure() metrics.Fleet {
	known := m.known.List()
	out := metrics.Fleet{Controller: leads(known)}
	if a := m.agent.Load(); a != nil {
		s := a.Stats(time.Now())
		out.Connected, out.Assigned, out.Applied, out.Drift, out.Lag, out.Errors = s.Joined, s.Assigned, s.Applied, s.Drift, s.Lag, s.Errors
	}
	if !out.Controller {
		return out
	}
	if nodes := m.nodes.Load(); nodes != nil {
		out.Nodes = *nodes
	}
	out.Rollouts = map[string]int{"running": 0, "paused": 0, "halted": 0, "rolled_back": 0}
	for i := range known {
		if state := rolloutStates[known[i].Reason]; state != "" {
			out.Rollouts[state]++
		}
	}
	return out
}

// rolloutStates are the states of rollouts in metrics.
var rolloutStates = map[*conditions.Reason]string{
	conditions.RolloutRunning: "running", conditions.RolloutPaused: "paused",
	conditions.RolloutHalted: "halted", conditions.RolloutRolledBack: "rolled_back",
}

// leads reports whether this rdmad is the fleet's controller.
func leads(known conditions.List) bool {
	c := known.Find(conditions.Fleet, conditions.FleetController)
	return c != nil && c.Reason != conditions.FleetDenied
}

// censusEvery is the time between two counts of the nodes.
const censusEvery = 15 * time.Second

// census counts the nodes by state while this rdmad is the controller.
func (m *membership) census(ctx context.Context) {
	tick := time.NewTicker(censusEvery)
	defer tick.Stop()
	for {
		m.count(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (m *membership) count(ctx context.Context) {
	if !leads(m.known.List()) {
		m.nodes.Store(nil)
		return
	}
	all, _, err := m.store.AllNodes(ctx)
	if err != nil {
		return // a condition by now
	}
	n := map[string]int{"up": 0, "down": 0}
	for _, one := range all {
		if one.Up {
			n["up"]++
		} else {
			n["down"]++
		}
	}
	m.nodes.Store(&n)
}

// fleetLoad measures this rdmad for the fleet.
func fleetLoad(c telemetry.Counters) func(time.Time) fleet.Load {
	m := telemetry.NewMeter(c, time.Now())
	return func(now time.Time) fleet.Load {
		l := m.Load(now)
		return fleet.Load{Calls: l.Calls, Errors: l.Errors, P99: l.P99, Connections: uint32(l.Connections)}
	}
}

// withdraw ends this rdmad's reports to the fleet.
func (m *membership) withdraw() {
	if m != nil && m.cancel != nil {
		m.cancel()
	}
}

// leave ends this rdmad's part in the fleet. The control plane still answers about the fleet. Without
// an answer of etcd, leave gives up after closeTimeout; the leases then end by themselves.
func (m *membership) leave() {
	if m == nil {
		return
	}
	m.withdraw()
	giveUp := time.AfterFunc(closeTimeout, func() { _ = m.store.Close() })
	m.running.Wait()
	giveUp.Stop()
}

// close ends all requests to etcd. The membership must have ended.
func (m *membership) close() {
	if m != nil {
		_ = m.store.Close() // a second time is no harm
	}
}

// leaveFleet takes the settings of a fleet away in which this rdmad no longer is.
func (d *daemon) leaveFleet(c *config.Config) {
	if c.Fleet != nil {
		return
	}
	if _, _, err := d.control.Settings.Assign(settings.FleetLayer{}, 0); err != nil {
		d.log.Error("the settings of the fleet's policies stay in force until the next start", "error", err)
	}
}
