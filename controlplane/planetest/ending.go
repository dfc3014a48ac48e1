package planetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// DrainConnection implements grpcapi.Plane. A connection whose State is
// draining has calls that never finish: it is cut when ctx ends.
func (p *Plane) DrainConnection(ctx context.Context, id string) error {
	c, err := p.Connection(id)
	if err != nil {
		return err
	}
	if c.State == dataplane.StateDraining {
		<-ctx.Done()
		p.Disconnect(id, "drained by an operator; cut with calls in flight")
		return &dataplane.CutError{What: "connection " + id, Count: 1, Err: context.Cause(ctx)}
	}
	p.Disconnect(id, "drained by an operator")
	return nil
}

// CloseConnection implements grpcapi.Plane.
func (p *Plane) CloseConnection(id string) error {
	if _, err := p.Connection(id); err != nil {
		return err
	}
	p.Disconnect(id, "closed by an operator")
	return nil
}

// Stats implements grpcapi.Plane: the sums over the connections that are up or disconnected.
func (p *Plane) Stats() (out []*dataplane.ListenerStats) {
	conns := p.Connections()
	p.mu.Lock()
	gone := slices.Clone(p.gone)
	p.mu.Unlock()
	for _, l := range p.Listeners() {
		s := &dataplane.ListenerStats{ListenerInfo: l}
		for i := range conns {
			if conns[i].Listener == l.Name {
				s.Connections++
				s.Totals.Add(&conns[i].Stats)
			}
		}
		for i := range gone {
			if gone[i].Listener == l.Name {
				s.Totals.Add(&gone[i].Stats)
			}
		}
		out = append(out, s)
	}
	return out
}

// Count replaces what a connection has counted.
func (p *Plane) Count(id string, count func(*dataplane.ConnInfo)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[id]
	if c == nil {
		panic(fmt.Sprintf("planetest: there is no connection %s", id))
	}
	count(&c.ConnInfo)
}

// Limits implements grpcapi.Plane.
func (p *Plane) Limits() dataplane.Limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.limits
	l.Connections, l.Handshakes = cmp.Or(l.Connections, 4096), cmp.Or(l.Handshakes, 256)
	return l
}

// Memory implements grpcapi.Plane.
func (p *Plane) Memory() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory
}

// TCPLimits implements grpcapi.Plane.
func (p *Plane) TCPLimits() dataplane.TCPLimits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tcp.WithDefaults()
}

// setLimits makes checked limits those in force.
func (p *Plane) setLimits(l *spec.Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits, p.tcp, p.memory = l.Limits, l.TCP(), int64(l.Memory)
}
