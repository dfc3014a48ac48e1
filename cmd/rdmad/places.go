package main

import (
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/descriptors"
)

// places are those of rdmad's own ports, within the descriptors that there are.
type places struct {
	clients, scrapers *connlimit.Table
	budget            atomic.Pointer[descriptors.Budget]
}

// wanted is what the limits of a configuration ask for.
func wanted(l *config.Limits) descriptors.Want {
	connections := int(l.Connections)
	if connections == 0 {
		connections = dataplane.DefaultMaxConnections
	}
	return descriptors.Want{Connections: connections, Control: l.ControlClients().Total, Metrics: l.Scrapers().Total}
}

// openPlaces divides the descriptors and makes the places of rdmad's ports.
func (d *daemon) openPlaces(l *config.Limits) error {
	now := time.Now()
	d.places.clients = connlimit.New(now, connlimit.Config{Name: "the control plane"})
	d.places.scrapers = connlimit.New(now, connlimit.Config{Name: "the metrics port"})
	return d.setPlaces(l)
}

// divide divides the descriptors of this process.
func divide(l *config.Limits) (descriptors.Budget, error) {
	limit, err := descriptors.Limit()
	return descriptors.Divide(limit, wanted(l)), err
}

// setPlaces puts the limits of rdmad's ports in force, and says which can't be reached.
func (d *daemon) setPlaces(l *config.Limits) error {
	b, err := divide(l)
	if err != nil {
		return err
	}
	for _, p := range b.Unreachable {
		d.log.Warn("a limit is out of reach", "reason", p)
	}
	d.places.budget.Store(&b)
	d.places.clients.SetLimits(within(l.ControlClients(), b.ControlClients()))
	d.places.scrapers.SetLimits(within(l.Scrapers(), b.Scrapers()))
	return nil
}

// within lowers limits to a number of connections.
func within(l connlimit.Limits, most int) connlimit.Limits {
	if l.Total > most {
		l.Total, l.Reserved = most, min(l.Reserved, most/4)
	}
	return l
}
