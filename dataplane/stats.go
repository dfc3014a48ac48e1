package dataplane

import (
	"reflect"
	"slices"
	"time"

	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
)

// ListenerStats are a listener's counters over all its connections, those
// that ended included. They only grow.
type ListenerStats struct {
	ListenerInfo
	Totals rpcrdma.Stats
	// Versions counts the connections that are up by the version of
	// RPC-over-RDMA that is agreed on, 1 or 2; at 0 those without a call yet.
	Versions [3]int
	// Receivers is the number of peers whose receive sizes are remembered. SendHeld
	// is the number of connections with smaller Sends than the settings allow
	// because of that.
	Receivers, SendHeld int
	// Failed counts calls that the service answered with an RPC error.
	Failed uint64
	// Disconnects counts connections that peers ended while calls of theirs
	// were being served.
	Disconnects uint64
	// QueueTime is how long calls waited before their service started, in ns.
	QueueTime histogram.Snapshot
	// Credits is the number of calls that all peers together may have in
	// flight, QueueDelay the smoothed QueueTime that grants follow; both as of
	// the last look, at most adaptive.Period ago.
	Credits    int
	QueueDelay time.Duration
	// ServiceTime is in ns, CallSize in bytes of arguments, ReplySize in
	// bytes of the RPC reply.
	ServiceTime, CallSize, ReplySize histogram.Snapshot
	// Memory is what is registered for the connections that are up.
	Memory rpcrdma.MemoryStats
}

// Stats gives the counters of all listeners, in no order.
func (d *Dataplane) Stats() []*ListenerStats {
	d.mu.Lock()
	all := make(map[*listener]*ListenerStats, len(d.listeners))
	for _, l := range d.listeners {
		all[l] = &ListenerStats{ListenerInfo: l.infoLocked(), Totals: l.gone}
	}
	up := slices.Clone(d.conns.all)
	d.mu.Unlock()
	// One that ends from here on is counted as it ended, once: what has gone
	// was looked at together with what was up.
	for _, c := range up {
		if s := all[c.l]; s != nil {
			one := c.link.Stats()
			addStats(&s.Totals, &one)
			s.Versions[agreed(c.link.Info())]++
			if c.heldNow() != "" {
				s.SendHeld++
			}
		}
	}
	out := make([]*ListenerStats, 0, len(all))
	for l, s := range all {
		l.measure(s)
		s.Memory = l.rl.Memory()
		out = append(out, s)
	}
	return out
}

// agreed is the version that a connection speaks, 0 while that is open.
func agreed(i rpcrdma.Info) int {
	if !i.VersionAgreed {
		return 0
	}
	return i.RPCVersion
}

// measure adds what is known of the calls.
func (l *listener) measure(s *ListenerStats) {
	s.Receivers = l.receivers.remembered()
	s.Failed = l.handler.failed.Load()
	s.Disconnects = l.disconnects.Load()
	s.Credits, s.QueueDelay = int(l.credits.Load()), time.Duration(l.delay.Load())
	l.handler.queue.Snapshot(&s.QueueTime)
	l.handler.time.Snapshot(&s.ServiceTime)
	l.handler.callSize.Snapshot(&s.CallSize)
	l.handler.replySize.Snapshot(&s.ReplySize)
}

// addStats adds the counters of one connection to a sum. By reflection, so
// that no counter is forgotten: it runs when a connection ends and when
// somebody looks.
func addStats(sum, s *rpcrdma.Stats) {
	to, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(s).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
	}
}
