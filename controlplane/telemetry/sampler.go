// Package telemetry turns counters into rates.
package telemetry

import (
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Source is what is measured.
type Source interface {
	Connections() []dataplane.ConnInfo
	Stats() []*dataplane.ListenerStats
}

// Rates are means per second.
type Rates struct {
	Calls, Replies               float64
	BytesReceived, BytesSent     float64
	Sends, RDMAReads, RDMAWrites float64
	SendsWithInvalidate, Errors  float64
}

// Connection is a connection over a sample's time.
type Connection struct {
	ID string
	Rates
	InProgress int    // calls at the sample's end
	Credits    uint32 // granted at the sample's end
}

// Busy says whether the connection had traffic.
func (c *Connection) Busy() bool { return c.Rates != Rates{} || c.InProgress > 0 }

// Listener is a listener over a sample's time.
type Listener struct {
	Name string
	Rates
	Connections int // at the sample's end
	// P50 and P99 are the service's time for a call; 0 without calls.
	P50, P99 time.Duration
	Memory   rpcrdma.MemoryStats // at the sample's end
}

// Sample is what happened between two looks at the counters.
type Sample struct {
	At      time.Time
	Seconds float64
	Total   Rates
	// P50 and P99 are the services' time for a call of any listener; 0 without
	// calls.
	P50, P99    time.Duration
	Listeners   []Listener   // by name
	Connections []Connection // by id
}

// Sampler remembers the counters that it saw last. It is for one goroutine.
type Sampler struct {
	source    Source
	at        time.Time
	conns     map[string]rpcrdma.Stats
	listeners map[string]*dataplane.ListenerStats
}

// New is a sampler whose first sample begins now.
func New(source Source, now time.Time) *Sampler {
	s := &Sampler{source: source}
	s.look(now)
	return s
}

// look reads all counters and keeps them for the next time.
func (s *Sampler) look(now time.Time) ([]dataplane.ConnInfo, []*dataplane.ListenerStats) {
	conns, listeners := s.source.Connections(), s.source.Stats()
	s.at = now
	s.conns = make(map[string]rpcrdma.Stats, len(conns))
	for i := range conns {
		s.conns[conns[i].ID] = conns[i].Stats
	}
	s.listeners = make(map[string]*dataplane.ListenerStats, len(listeners))
	for _, l := range listeners {
		s.listeners[l.Name] = l
	}
	return conns, listeners
}
