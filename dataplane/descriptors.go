package dataplane

import (
	"errors"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// Descriptors are the file descriptors for connections. They bound connections in addition to
// the limits. 0 means no bound.
type Descriptors struct {
	RDMA int // of all listeners and connectors together; see PerConnection
	TCP  int // of services on TCP, one for each connection
}

// ClientDescriptors are the descriptors of a connector's connection besides the provider's: the
// client's connection.
const ClientDescriptors = 1

// PerConnection returns the most descriptors that a connection of any listener or connector
// needs, including those whose last connections are being drained; at least 1.
func (d *Dataplane) PerConnection() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	most := 1
	for _, l := range d.boundLocked() {
		most = max(most, l.descriptors)
	}
	for _, k := range d.connectors {
		most = max(most, k.descriptors)
	}
	return most
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
	l := within(d.limits.tableLimits(), d.descriptors.RDMA)
	l.Weight = d.descriptors.RDMA
	return l
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
	if !ok || e.Table != "" {
		return false
	}
	lowered, asked := d.tableLimitsLocked(), d.limits.tableLimits()
	return e.Weight || lowered.Total != asked.Total || lowered.PerKey != asked.PerKey
}
