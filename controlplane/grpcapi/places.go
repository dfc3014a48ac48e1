package grpcapi

import (
	"context"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// DefaultClients are the limits of clients' connections unless Access has places. A few clients
// cannot exclude others, admins have reserved places, and a user at its limit replaces its own
// idle connections.
func DefaultClients() connlimit.Limits {
	return connlimit.Limits{Total: port.ControlConnections, PerKey: 64, KeyGrace: keyGrace, Reserved: 32, Idle: 5 * time.Minute}
}

// keyGrace is how long a connection is idle before another of the same client may
// take its place: a round trip on one machine, and some computing.
const keyGrace = 10 * time.Millisecond

// Places counts and limits connections to the control plane.
type Places struct {
	// Clients has the connections of identified clients.
	Clients *connlimit.Table
	// arriving connections are not identified yet. They are counted apart from
	// Clients, so that an admin always finds a place.
	arriving *connlimit.Table
	// turnedAway clients found no place. They have a moment to ask and be
	// answered with the reason.
	turnedAway *connlimit.Table
	streams    *streams
}

// NewPlaces makes places for clients within limits.
func NewPlaces(l connlimit.Limits) *Places {
	now := time.Now()
	p := &Places{
		Clients:    connlimit.New(now, connlimit.Config{Name: "the control plane"}),
		arriving:   connlimit.New(now, connlimit.Config{Name: "the control plane's handshakes"}),
		turnedAway: connlimit.New(now, connlimit.Config{}),
		streams:    newStreams(now),
	}
	p.SetLimits(l)
	return p
}

// SetLimits changes the limits of clients. In addition to the limit, up to 15/16 of it, at most
// 128, may be connections that are being identified, and 1/16, at most 16, connections that are
// being refused. Streams have their limits in proportion.
func (p *Places) SetLimits(l connlimit.Limits) {
	p.Clients.SetLimits(l)
	p.streams.setLimits(l)
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
