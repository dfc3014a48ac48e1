// Package descriptors divides the files that a process may have open between
// what needs them, so that a flood of connections leaves some to the NFS
// service's files and to operators.
package descriptors

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Want is what the limits ask for.
type Want struct {
	Connections int // RPC-over-RDMA connections
	Control     int // connections to the control plane
	Metrics     int // connections to the metrics port
}

// Budget is how many descriptors each use may have.
type Budget struct {
	Limit   int // of the process (RLIMIT_NOFILE)
	Own     int // sockets that listen, state, logs, devices
	Control int // connections to the control plane, those being made included
	Metrics int // connections to the metrics port
	Files   int // of exports
	TCP     int // NFS and MOUNT over TCP
	RDMA    int // RPC-over-RDMA connections and what they pass on
	// Unreachable are the limits that can't be reached, a line each.
	Unreachable []string
}

// Each use but RDMA's, which gets the rest, has at most a part of the limit, and at most so many.
const (
	ownFiles     = 64
	mostFiles    = 16384
	mostTCP      = 8192
	perRDMA      = 2 // an adapter's channels, or a connection that is passed on
	perClient    = 2 // some connections to the control plane are being made
	mostOfLimits = math.MaxInt32
)

// Limit is how many files the process may have open. The Go runtime raised the
// soft limit to the hard one.
func Limit() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("RLIMIT_NOFILE: %w", err)
	}
	return int(min(l.Cur, mostOfLimits)), nil
}

// Open is how many the process has open; 0 if the system doesn't say.
func Open() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// Divide makes a budget.
func Divide(limit int, w Want) Budget {
	b := Budget{
		Limit:   limit,
		Own:     min(ownFiles, limit/4),
		Control: min(w.Control*perClient, limit/8),
		Metrics: min(w.Metrics, limit/16),
		Files:   min(mostFiles, limit/4),
		TCP:     min(mostTCP, limit/8),
	}
	b.RDMA = limit - b.Own - b.Control - b.Metrics - b.Files - b.TCP
	b.Unreachable = b.unreachable(w)
	return b
}

// Connections is how many RPC-over-RDMA connections there may be; ControlClients and
// Scrapers are the same for the other ports.
func (b *Budget) Connections() int { return max(b.RDMA/perRDMA, 1) }

// ControlClients is the most connections of identified clients.
func (b *Budget) ControlClients() int { return max(b.Control/perClient, 1) }

// Scrapers is the most connections to the metrics port.
func (b *Budget) Scrapers() int { return max(b.Metrics, 1) }

// unreachable says which limits can't be reached, and what to do.
func (b *Budget) unreachable(w Want) (out []string) {
	for _, l := range []struct {
		key        string
		want, have int
	}{
		{"limits.connections", w.Connections, b.Connections()},
		{"limits.control.connections", w.Control, b.ControlClients()},
		{"limits.metrics.connections", w.Metrics, b.Scrapers()},
	} {
		if l.want > l.have {
			out = append(out, fmt.Sprintf("%s: %d can't be reached, %d can: only %d files may be open; raise ulimit -n, or LimitNOFILE of the service",
				l.key, l.want, l.have, b.Limit))
		}
	}
	return out
}
