package grpcapi

import (
	"context"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// DefaultClients are the limits of clients' connections unless Access has
// places. A fifth client can't lock out a sixth, an admin gets in beside
// any number of others, and a user beside connections that its own scripts
// have forgotten.
func DefaultClients() connlimit.Limits {
	return connlimit.Limits{Total: port.ControlConnections, PerKey: 64, KeyGrace: keyGrace, Reserved: 32, Idle: 5 * time.Minute}
}

// keyGrace is how long a connection is idle before another of the same client may
// take its place: a round trip on one machine, and some computing.
const keyGrace = 10 * time.Millisecond

// Places are those of connections to the control plane.
type Places struct {
	// Clients are identified.
	Clients *connlimit.Table
	// arriving connections are not identified yet. They are counted apart from
	// Clients, so that an admin always finds a place.
	arriving *connlimit.Table
	// turnedAway clients found no place. They have a moment to ask and be
	// answered with the reason.
	turnedAway *connlimit.Table
}

// NewPlaces makes places for clients within limits.
func NewPlaces(l connlimit.Limits) *Places {
	now := time.Now()
	p := &Places{
		Clients:    connlimit.New(now, connlimit.Config{Name: "the control plane"}),
		arriving:   connlimit.New(now, connlimit.Config{Name: "the control plane's handshakes"}),
		turnedAway: connlimit.New(now, connlimit.Config{}),
	}
	p.SetLimits(l)
	return p
}

// SetLimits changes the limits of clients. There may be fifteen sixteenths as many connections more that
// are being identified, at most 128, and a sixteenth that are turned away, at most 16.
func (p *Places) SetLimits(l connlimit.Limits) {
	p.Clients.SetLimits(l)
	arriving := min(128, max(l.Total-l.Total/16, 1))
	p.arriving.SetLimits(connlimit.Limits{Total: arriving, PerKey: max(arriving/2, 1), KeyGrace: keyGrace, HalfOpen: handshakeTime})
	p.turnedAway.SetLimits(connlimit.Limits{Total: 16, PerKey: 4, HalfOpen: connlimit.HalfOpenGrace}.Within(max(l.Total/16, 1)))
}

// run has connections age until ctx ends.
func (p *Places) run(ctx context.Context) {
	for _, t := range []*connlimit.Table{p.Clients, p.arriving, p.turnedAway} {
		go t.Run(ctx)
	}
}
