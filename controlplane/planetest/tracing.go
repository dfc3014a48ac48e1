package planetest

import (
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Tracing implements grpcapi.Plane.
func (p *Plane) Tracing() *trace.Hub { return &p.tracing }

// Observe gives an event of a connection to its traces and captures.
func (p *Plane) Observe(id string, o *rpcrdma.Operation) {
	p.mu.Lock()
	c := p.conns[id]
	p.mu.Unlock()
	c.trace.Tap().Observe(o)
}
