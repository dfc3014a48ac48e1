package planetest

import (
	"sync"

	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// Ports implements grpcapi.Ports without any. The zero Ports has the default limits.
type Ports struct {
	mu     sync.Mutex
	limits port.OwnLimits
}

// PortLimits implements grpcapi.Ports.
func (p *Ports) PortLimits() port.OwnLimits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits
}

// SetPortLimits implements grpcapi.Ports.
func (p *Ports) SetPortLimits(l port.OwnLimits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = l
	return nil
}
