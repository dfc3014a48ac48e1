// Package telemetry turns counters into rates.
package telemetry

import (
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Rates are means per second.
type Rates struct {
	Calls, Replies               float64
	BytesReceived, BytesSent     float64
	Sends, RDMAReads, RDMAWrites float64
	SendsWithInvalidate, Errors  float64
}

// Connection has the work of a connection in a sample.
type Connection struct {
	ID string
	Rates
	InProgress int    // calls at the sample's end
	Credits    uint32 // granted at the sample's end
}

// Busy reports whether the connection had traffic.
func (c *Connection) Busy() bool { return c.Rates != Rates{} || c.InProgress > 0 }

// Listener has the work of a listener in a sample.
type Listener struct {
	Name string
	Rates
	Connections int // at the sample's end
	// P50 and P99 are the service's time for a call; 0 without calls.
	P50, P99 time.Duration
	Memory   rpcrdma.MemoryStats // at the sample's end
}

// Sample has the work between two looks at the counters.
type Sample struct {
	At      time.Time
	Seconds float64
	Total   Rates
	// P50 and P99 are the services' time for a call of any listener; 0 without
	// calls.
	P50, P99    time.Duration
	Listeners   []Listener   // by name
	Connections []Connection // by id

	encoded memo[string, []byte] // by form
}

// Sampler has the counters of the last sample. It is for one goroutine.
type Sampler struct {
	source Source
	cell   time.Duration
	last   *Look
}

// New returns a sampler. Its first sample begins with the first look of any sampler in the cell
// of time that now is in. Samples end with such looks, too.
func New(source Source, now time.Time, cell time.Duration) *Sampler {
	return &Sampler{source, cell, source(now, time.Time{}, cell)}
}
