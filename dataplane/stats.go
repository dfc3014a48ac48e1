package dataplane

import (
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
)

// ListenerStats are a listener's counters over all its connections, those
// that ended included. They only grow.
type ListenerStats struct {
	ListenerInfo
	Totals rpcrdma.Stats
	// Failed counts calls that the service answered with an RPC error.
	Failed uint64
	// ServiceTime is in ns, CallSize in bytes of arguments, ReplySize in
	// bytes of the RPC reply.
	ServiceTime, CallSize, ReplySize histogram.Snapshot
}

// Stats gives the counters of all listeners, in no order.
func (d *Dataplane) Stats() []*ListenerStats {
	d.mu.Lock()
	all := make(map[*listener]*ListenerStats, len(d.listeners))
	for _, l := range d.listeners {
		all[l] = &ListenerStats{ListenerInfo: l.infoLocked(), Totals: l.gone}
	}
	// Under the lock, so that no connection is counted twice or not at all.
	for _, c := range d.conns {
		if s := all[c.l]; s != nil {
			one := c.rc.Stats()
			addStats(&s.Totals, &one)
		}
	}
	d.mu.Unlock()
	out := make([]*ListenerStats, 0, len(all))
	for l, s := range all {
		s.Failed = l.handler.failed.Load()
		l.handler.time.Snapshot(&s.ServiceTime)
		l.handler.callSize.Snapshot(&s.CallSize)
		l.handler.replySize.Snapshot(&s.ReplySize)
		out = append(out, s)
	}
	return out
}

// addStats adds the counters of one connection to a sum.
func addStats(sum, s *rpcrdma.Stats) {
	sum.Calls += s.Calls
	sum.Replies += s.Replies
	sum.ReverseCalls += s.ReverseCalls
	sum.RDMAReads += s.RDMAReads
	sum.RDMAWrites += s.RDMAWrites
	sum.Sends += s.Sends
	sum.SendsWithInvalidate += s.SendsWithInvalidate
	sum.Receives += s.Receives
	sum.Errors += s.Errors
	sum.BytesReceived += s.BytesReceived
	sum.BytesSent += s.BytesSent
}
