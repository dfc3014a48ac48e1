package main

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/metrics"
)

// places are those of rdmad's own ports, and the descriptors of the process as
// they are divided between these ports and everything else.
type places struct {
	log      *slog.Logger
	clients  *grpcapi.Places
	scrapers *connlimit.Table
	data     *dataplane.Dataplane // nil until there is one

	mu     sync.Mutex
	served int // listeners, services and connectors
	limits port.OwnLimits
	budget descriptors.Budget
}

// portLimits are those of a configuration.
func portLimits(c *config.Config) port.OwnLimits {
	return port.OwnLimits{Control: c.Limits.Control, Metrics: c.Limits.Metrics}
}

func served(c *config.Config) int { return len(c.Listeners) + len(c.Services) + len(c.Connectors) }

// wanted is what limits ask for.
func wanted(served int, l dataplane.Limits, tcp dataplane.TCPLimits, p *port.OwnLimits) descriptors.Want {
	return descriptors.Want{
		Served: served, Connections: cmp.Or(l.Connections, dataplane.DefaultMaxConnections), TCP: tcp.WithDefaults().Connections,
		Control: p.Control.Over(grpcapi.DefaultClients()).Total, Metrics: p.Metrics.Over(metrics.DefaultScrapers()).Total,
	}
}

// divide divides the descriptors of this process for a configuration.
func divide(c *config.Config) (descriptors.Budget, error) {
	limit, err := descriptors.Limit()
	if err != nil {
		return descriptors.Budget{}, err
	}
	ports := portLimits(c)
	return descriptors.Divide(limit, wanted(served(c), c.Limits.Limits, c.Limits.TCP(), &ports))
}

// newPlaces divides the descriptors and makes the places of rdmad's ports.
func newPlaces(c *config.Config, log *slog.Logger) (*places, error) {
	p := &places{
		log: log, clients: grpcapi.NewPlaces(grpcapi.DefaultClients()),
		scrapers: connlimit.New(time.Now(), connlimit.Config{Name: "the metrics port"}),
	}
	return p, p.configure(c)
}

// configure puts the limits of a configuration in force, and says which can't be reached.
func (p *places) configure(c *config.Config) error {
	b, err := divide(c)
	if err != nil {
		return err
	}
	for _, text := range b.Unreachable {
		p.log.Warn("a limit is out of reach", "reason", text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served, p.limits, p.budget = served(c), portLimits(c), b
	p.apply()
	return nil
}

// apply has all ports keep to the budget. mu is held.
func (p *places) apply() {
	b := &p.budget
	control := p.limits.Control.Over(grpcapi.DefaultClients())
	lowered := control.Within(b.ControlClients())
	lowered.PerKey = min(control.PerKey, max(lowered.Total/2, 1)) // an operator shares them with scripts of its own
	p.clients.SetLimits(lowered)
	p.scrapers.SetLimits(p.limits.Metrics.Over(metrics.DefaultScrapers()).Within(b.Scrapers()))
	if p.data != nil {
		p.data.SetDescriptors(dataplane.Descriptors{Connections: b.Connections(), TCP: b.TCP})
	}
}

// PortLimits implements grpcapi.Ports.
func (p *places) PortLimits() port.OwnLimits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits
}

// SetPortLimits implements grpcapi.Ports.
func (p *places) SetPortLimits(l port.OwnLimits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.divide(&l)
	if err != nil {
		return err
	}
	p.limits, p.budget = l, b
	p.apply()
	return nil
}

// divide divides the descriptors for the limits that are in force, but for l.
// mu is held.
func (p *places) divide(l *port.OwnLimits) (descriptors.Budget, error) {
	return p.divideFor(p.served, l)
}

func (p *places) divideFor(served int, l *port.OwnLimits) (descriptors.Budget, error) {
	return descriptors.Divide(p.budget.Limit, wanted(served, p.data.Limits(), p.data.TCPLimits(), l))
}

// mayServe fails if there are too few descriptors for so many listeners, services and
// connectors.
func (p *places) mayServe(served int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.divideFor(served, &p.limits)
	return err
}

// serve divides the descriptors for so many listeners, services and connectors.
func (p *places) serve(served int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if served == p.served {
		return
	}
	b, err := p.divideFor(served, &p.limits)
	if err != nil { // of an earlier start, with more descriptors
		p.log.Warn("descriptors are not divided anew", "error", err)
		return
	}
	p.served, p.budget = served, b
	p.apply()
}

// divided is the division in force, with the limits that can't be reached now.
func (p *places) divided() descriptors.Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, err := p.divide(&p.limits); err == nil {
		p.budget.Unreachable = b.Unreachable
	}
	return p.budget
}

// descriptors are those of connections.
func (p *places) descriptors() dataplane.Descriptors {
	p.mu.Lock()
	defer p.mu.Unlock()
	return dataplane.Descriptors{Connections: p.budget.Connections(), TCP: p.budget.TCP}
}

// handshakes is how many descriptors connections being made may have.
func (p *places) handshakes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.Handshakes()
}

// files is how many descriptors the files of exports may have.
func (p *places) files() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.Files
}
