package planetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
func (p *Plane) Stats() []*dataplane.ListenerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[*endpoint]*dataplane.ListenerStats)
	for _, e := range p.endpoints {
		if e.listener != nil {
			all[e] = &dataplane.ListenerStats{ListenerInfo: *e.listener, Totals: e.gone}
		}
	}
	for _, c := range p.conns {
		if s := all[c.of]; s != nil {
			s.Connections++
			s.Totals.Add(&c.Stats)
		}
	}
	return slices.Collect(maps.Values(all))
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

// SetMemory implements manager.Dataplane.
func (p *Plane) SetMemory(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory = limit
}

// TCPLimits implements grpcapi.Plane.
func (p *Plane) TCPLimits() dataplane.TCPLimits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tcp.WithDefaults()
}

// CheckLimits implements manager.Bounds.
func (*Plane) CheckLimits(*spec.Limits) error { return nil }

// CheckMemory implements manager.Bounds.
func (*Plane) CheckMemory(spec.Size, int) error { return nil }

// ApplyLimits implements manager.Bounds.
func (p *Plane) ApplyLimits(l, _ *spec.Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits, p.tcp, p.memory = l.Limits, l.TCP(), int64(l.Memory)
}
