package dataplane

import (
	"errors"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// Descriptors is the number of connections for which there are file descriptors. It applies
// in addition to the limits. 0 means no limit.
type Descriptors struct {
	Connections int // RPC-over-RDMA, of all listeners and connectors together
	TCP         int // of services on TCP
}

// SetDescriptors changes these numbers. Connections that are up and over a lowered number
// stay, as with SetLimits.
func (d *Dataplane) SetDescriptors(n Descriptors) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.descriptors = n
	d.places.SetLimits(d.tableLimitsLocked())
	d.tcp.SetLimits(d.tcpTableLocked())
}

// tableLimitsLocked returns the limits of all listeners together, bounded by descriptors.
func (d *Dataplane) tableLimitsLocked() connlimit.Limits {
	return within(d.limits.tableLimits(), d.descriptors.Connections)
}

// tcpTableLocked returns the limits of services on TCP, bounded by descriptors.
func (d *Dataplane) tcpTableLocked() connlimit.Limits {
	return within(d.tcpLimits.table(), d.descriptors.TCP)
}

func within(l connlimit.Limits, n int) connlimit.Limits {
	if n == 0 {
		return l
	}
	return l.Within(n)
}

// wantsDescriptorsLocked reports whether a connection was refused for lack of descriptors.
func (d *Dataplane) wantsDescriptorsLocked(refused error) bool {
	e, ok := errors.AsType[*connlimit.RefusedError](refused)
	return ok && e.Table == "" && d.tableLimitsLocked() != d.limits.tableLimits()
}
