package dataplane

import (
	"errors"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// Descriptors is how many connections there may be descriptors for, whatever the
// limits say; 0 is any number.
type Descriptors struct {
	Connections int // RPC-over-RDMA, of all listeners and connectors together
	TCP         int // of services on TCP
}

// SetDescriptors changes how many connections there may be descriptors for.
// Connections that are up and over a lowered number stay, as with SetLimits.
func (d *Dataplane) SetDescriptors(n Descriptors) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.descriptors = n
	d.places.SetLimits(d.tableLimitsLocked())
	d.tcp.SetLimits(d.tcpTableLocked())
}

// tableLimitsLocked are those of all listeners together, as far as there are descriptors.
func (d *Dataplane) tableLimitsLocked() connlimit.Limits {
	return within(d.limits.tableLimits(), d.descriptors.Connections)
}

// tcpTableLocked are those of services on TCP, as far as there are descriptors.
func (d *Dataplane) tcpTableLocked() connlimit.Limits {
	return within(d.tcpLimits.table(), d.descriptors.TCP)
}

func within(l connlimit.Limits, n int) connlimit.Limits {
	if n == 0 {
		return l
	}
	return l.Within(n)
}

// wantsDescriptorsLocked says whether a connection was refused a place that
// there would be with more descriptors.
func (d *Dataplane) wantsDescriptorsLocked(refused error) bool {
	e, ok := errors.AsType[*connlimit.RefusedError](refused)
	return ok && e.Table == "" && d.tableLimitsLocked() != d.limits.tableLimits()
}
