package planetest

import (
	"sync"

	"github.com/rdmad/rdmad/controlplane/grpcapi"
)

// Ports implements grpcapi.Ports without any. The zero Ports has the default limits.
type Ports struct {
	mu     sync.Mutex
	limits grpcapi.PortLimits
}

// PortLimits implements grpcapi.Ports.
func (p *Ports) PortLimits() grpcapi.PortLimits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits
}

// SetPortLimits implements grpcapi.Ports.
func (p *Ports) SetPortLimits(l grpcapi.PortLimits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = l
	return nil
}
