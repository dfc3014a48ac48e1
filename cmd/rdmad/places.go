package main

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/metrics"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// places holds the places of rdmad's own ports, and divides the descriptors of the process
// between these ports and everything else.
type places struct {
	log      *slog.Logger
	clients  *grpcapi.Places
	scrapers *connlimit.Table
	data     *dataplane.Dataplane // nil until the data plane exists

	mu     sync.Mutex
	needs  needs
	limits port.OwnLimits
	budget descriptors.Budget
}

// needs are the needs of what is served.
type needs struct {
	served        int // listeners, services and connectors
	perConnection int // see descriptors.Want
}

// needsOf returns the needs of what a configuration serves.
func needsOf(c *config.Config) needs {
	n := needs{served: len(c.Listeners) + len(c.Services) + len(c.Connectors), perConnection: 1}
	opened := make(map[string]int)
	for i := range c.Services {
		opened[c.Services[i].Name] = c.Services[i].Descriptors()
	}
	for i := range c.Listeners {
		n.perConnection = max(n.perConnection, providers.Descriptors(c.Listeners[i].Provider)+opened[c.Listeners[i].Service])
	}
	for i := range c.Connectors {
		n.perConnection = max(n.perConnection, providers.Descriptors(c.Connectors[i].Provider)+dataplane.ClientDescriptors)
	}
	return n
}

// wanted returns the descriptors that limits need.
func wanted(n needs, l dataplane.Limits, tcp dataplane.TCPLimits, p *port.OwnLimits) descriptors.Want {
	return descriptors.Want{
		Served: n.served, PerConnection: n.perConnection,
		Connections: cmp.Or(l.Connections, dataplane.DefaultMaxConnections), TCP: tcp.WithDefaults().Connections,
		Control: p.Control.Over(grpcapi.DefaultClients()).Total, Metrics: p.Metrics.Over(metrics.DefaultScrapers()).Total,
	}
}

// divide divides the descriptors of this process for a configuration.
func divide(c *config.Config) (descriptors.Budget, error) {
	limit, err := descriptors.Limit()
	if err != nil {
		return descriptors.Budget{}, err
	}
	return descriptors.Divide(limit, wanted(needsOf(c), c.Limits.Limits, c.Limits.TCP(), new(c.Limits.Ports())))
}

// connections returns the descriptors for connections.
func connections(b *descriptors.Budget) dataplane.Descriptors {
	return dataplane.Descriptors{RDMA: b.Connected(), TCP: b.TCP}
}

// newPlaces divides the descriptors and makes the places of rdmad's ports.
func newPlaces(c *config.Config, log *slog.Logger) (*places, error) {
	p := &places{
		log: log, clients: grpcapi.NewPlaces(grpcapi.DefaultClients()),
		scrapers: connlimit.New(time.Now(), connlimit.Config{Name: "the metrics port"}),
	}
	b, err := divide(c)
	if err == nil {
		p.configure(c, b)
	}
	return p, err
}

// configure applies the limits of a configuration and its division, and logs those that can't
// be reached.
func (p *places) configure(c *config.Config, b descriptors.Budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget.Unreachable = nil
	p.needs, p.limits = needsOf(c), c.Limits.Ports()
	p.use(b)
}

// use applies a budget, and logs the limits that can't be reached any more. The caller holds mu.
func (p *places) use(b descriptors.Budget) {
	for _, text := range b.Unreachable {
		if !slices.Contains(p.budget.Unreachable, text) {
			p.log.Warn("a limit cannot be reached", "reason", text)
		}
	}
	p.budget = b
	p.apply()
}

// apply applies the budget to all ports. The caller holds mu.
func (p *places) apply() {
	b := &p.budget
	control := p.limits.Control.Over(grpcapi.DefaultClients())
	lowered := control.Within(b.ControlClients())
	lowered.PerKey = min(control.PerKey, max(lowered.Total/2, 1)) // an operator shares these places with its own scripts
	p.clients.SetLimits(lowered)
	p.scrapers.SetLimits(p.limits.Metrics.Over(metrics.DefaultScrapers()).Within(b.Scrapers()))
	if p.data != nil {
		p.data.SetDescriptors(connections(b))
	}
}

// mayLimit returns an error if there are too few descriptors with some limits.
func (p *places) mayLimit(l *spec.Limits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.divideWith(l)
	return err
}

func (p *places) divideWith(l *spec.Limits) (descriptors.Budget, error) {
	ports := l.Ports()
	return descriptors.Divide(p.budget.Limit, wanted(p.needs, l.Limits, l.TCP(), &ports))
}

// limit divides the descriptors for limits that were checked, and applies those of the ports.
func (p *places) limit(l *spec.Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.divideWith(l)
	if err != nil {
		p.log.Warn("descriptors are not divided anew", "error", err)
		return
	}
	p.limits = l.Ports()
	p.use(b)
}

// divideFor divides the descriptors for the current limits. The caller holds mu.
func (p *places) divideFor(n needs) (descriptors.Budget, error) {
	return descriptors.Divide(p.budget.Limit, wanted(n, p.data.Limits(), p.data.TCPLimits(), &p.limits))
}

// mayServe returns an error if there are too few descriptors for this number of listeners,
// services and connectors.
func (p *places) mayServe(served int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.divideFor(needs{served, p.needs.perConnection})
	return err
}

// serve divides the descriptors for this number of listeners, services and connectors, and for
// the connections of those in the data plane.
func (p *places) serve(served int) {
	n := needs{served, p.data.PerConnection()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == p.needs {
		return
	}
	b, err := p.divideFor(n)
	if err != nil { // an earlier start had more descriptors
		p.log.Warn("descriptors are not divided anew", "error", err)
		return
	}
	p.needs = n
	p.use(b)
}

// divided returns the current division, with the limits that can't be reached now.
func (p *places) divided() descriptors.Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, err := p.divideFor(p.needs); err == nil {
		p.budget.Unreachable = b.Unreachable
	}
	return p.budget
}

// current returns the current division.
func (p *places) current() descriptors.Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget
}
