package planetest

import "github.com/rdmad/rdmad/dataplane"

// SetSlowCalls sets what SlowCalls returns.
func (p *Plane) SetSlowCalls(s dataplane.SlowCalls) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = s
}

// SlowCalls implements grpcapi.Plane.
func (p *Plane) SlowCalls() dataplane.SlowCalls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slow
}
