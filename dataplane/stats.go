package dataplane

import (
	"time"

	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
)

// ListenerStats holds a listener's counters over all its connections, including those that
// have ended. The counters only grow.
type ListenerStats struct {
	ListenerInfo
	Totals rpcrdma.Stats
	// Versions counts the connections that are up by their agreed version of RPC-over-RDMA,
	// 1 or 2. Index 0 counts those without an agreed version.
	Versions [3]int
	// MaxConnections is the limit of connections that is reached first: the listener's, or
	// SharedConnections, that of all listeners together.
	MaxConnections, SharedConnections int
	// Receivers is the number of peers whose receive sizes are remembered. SendHeld
	// is the number of connections with smaller Sends than the settings allow
	// because of that.
	Receivers, SendHeld int
	// InFlight is the number of calls that the service has not answered yet.
	InFlight int
	// Failed counts calls that the service answered with an RPC error.
	Failed uint64
	// Disconnects counts connections that peers ended while calls were being served.
	Disconnects uint64
	// QueueTime is how long calls waited before their service started, in ns.
	QueueTime histogram.Snapshot
	// Credits is the number of calls that all peers together may have in flight. QueueDelay
	// is the smoothed QueueTime that grants follow. Both are at most adaptive.Period old.
	Credits    int
	QueueDelay time.Duration
	// ServiceTime is in ns, CallSize in bytes of arguments, ReplySize in bytes of the RPC
	// reply.
	ServiceTime, CallSize, ReplySize histogram.Snapshot
	// Memory describes the memory registered for the connections that are up.
	Memory rpcrdma.MemoryStats
}

// walkStretch is how long a walk over all connections reads their counters at a time.
const walkStretch = time.Millisecond

// Stats returns the counters of all listeners, in no order.
func (d *Dataplane) Stats() []*ListenerStats {
	d.recount()
	d.mu.Lock()
	all := make(map[*Listener]*ListenerStats, len(d.listeners))
	for _, l := range d.listeners {
		shared := d.tableLimitsLocked().Total
		most := shared
		if own := l.limits.Connections; own > 0 {
			most = min(most, own)
		}
		all[l] = &ListenerStats{
			ListenerInfo: l.infoLocked(), MaxConnections: most, SharedConnections: shared,
			Totals: l.sums.stats, InFlight: l.sums.inFlight, Versions: l.sums.versions, SendHeld: l.sums.held,
		}
	}
	d.mu.Unlock()
	out := make([]*ListenerStats, 0, len(all))
	for l, s := range all {
		l.measure(s)
		s.Memory = l.rl.Memory()
		out = append(out, s)
	}
	return out
}

// Totals returns the number of connections, and the sums of their counters, including those
// of connections that have ended, also of listeners and connectors that were removed or replaced.
func (d *Dataplane) Totals() (connections int, sum rpcrdma.Stats) {
	d.recount()
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns.all), d.totals
}

// agreed returns the agreed version of a connection, or 0 if there is none yet.
func agreed(i *rpcrdma.Info) int {
	if !i.VersionAgreed {
		return 0
	}
	return i.RPCVersion
}

// measure adds the measurements of the calls.
func (l *Listener) measure(s *ListenerStats) {
	s.Receivers = l.receivers.remembered()
	s.Failed = l.calls.failed.Load()
	s.Disconnects = l.disconnects.Load()
	s.Credits, s.QueueDelay = int(l.credits.Load()), time.Duration(l.delay.Load())
	l.calls.queue.Snapshot(&s.QueueTime)
	l.calls.time.Snapshot(&s.ServiceTime)
	l.calls.callSize.Snapshot(&s.CallSize)
	l.calls.replySize.Snapshot(&s.ReplySize)
}
