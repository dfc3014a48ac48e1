// Package descriptors divides the files that a process may have open between their uses. So a
// flood of connections leaves some for the NFS service's files and for operators.
package descriptors

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Want is the configuration's need of descriptors.
type Want struct {
	Served        int // listeners, services and connectors
	Connections   int // RPC-over-RDMA connections
	PerConnection int // the most descriptors that any of these needs; at least 1
	TCP           int // connections of NFS and MOUNT over TCP
	Control       int // connections to the control plane
	Metrics       int // connections to the metrics port
}

// Budget is the number of descriptors for each use.
type Budget struct {
	Limit   int // of the process (RLIMIT_NOFILE)
	Own     int // sockets that listen, directories of exports, state, logs, devices
	Control int // connections to the control plane, those being identified included
	Metrics int // connections to the metrics port
	Files   int // of exports
	TCP     int // NFS and MOUNT over TCP
	RDMA    int // RPC-over-RDMA connections and what they pass on, those being made included
	// Unreachable lists the limits that need more descriptors than there are, one line each.
	Unreachable []string

	served, perRDMA int
}

// Own descriptors, and those that the others need at least.
const (
	ownFiles  = 40
	perServed = 8
	leastRest = 96
)

// Each use but RDMA's, which gets the rest, has at most a part of what rdmad itself leaves, and at most so many.
const (
	mostFiles    = 16384
	mostTCP      = 8192
	perClient    = 2    // some connections to the control plane are being identified
	mostClosing  = 1024 // connections whose last bytes go out
	perListener  = 256  // connections being made
	mostOfLimits = math.MaxInt32
)

// TooFewError means that the process may not open enough files for its configuration.
type TooFewError struct {
	Limit, Least int
	Served       int
}

func (e *TooFewError) Error() string {
	return fmt.Sprintf("only %d files may be open, and rdmad needs %d at least for %d listeners, services and connectors: "+
		"raise ulimit -n, or LimitNOFILE of the service, to that or more", e.Limit, e.Least, e.Served)
}

// Limit returns the number of files that the process may have open. The Go runtime has raised
// the soft limit to the hard one.
func Limit() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("RLIMIT_NOFILE: %w", err)
	}
	return int(min(l.Cur, mostOfLimits)), nil
}

// Open returns the number of files that the process has open, or 0 if the system does not
// report it.
func Open() int { return OpenIn(self) }

// self is this process's directory of /proc.
const self = "/proc/self"

// OpenIn is Open for the process that has a directory of /proc.
func OpenIn(process string) int {
	// Since Linux 6.2 the size is the number. Before that it is 0, and the names must be read,
	// which takes milliseconds when there are thousands.
	if i, err := os.Stat(filepath.Join(process, "fd")); err == nil && i.Size() > 0 {
		return int(i.Size())
	}
	return named(process)
}

// named counts the names of a process's open files.
func named(process string) int {
	names, _ := os.ReadDir(filepath.Join(process, "fd"))
	if process == self && len(names) > 0 {
		return len(names) - 1 // the last one was this directory
	}
	return len(names)
}

// Divide divides limit descriptors. The error is a *TooFewError.
func Divide(limit int, w Want) (Budget, error) {
	b := Budget{Limit: limit, Own: ownFiles + perServed*w.Served, served: w.Served, perRDMA: max(w.PerConnection, 1)}
	rest := limit - b.Own
	if rest < leastRest {
		return b, &TooFewError{Limit: limit, Least: b.Own + leastRest, Served: w.Served}
	}
	b.Control = min(w.Control*perClient, rest/6)
	b.Metrics = min(w.Metrics, rest/16)
	b.Files = min(mostFiles, rest/4)
	b.TCP = min(mostTCP, rest/8)
	b.RDMA = rest - b.Control - b.Metrics - b.Files - b.TCP
	b.Unreachable = b.unreachable(w)
	return b, nil
}

// Handshakes is the number of descriptors for connections that are being made or closed: as
// many as softiwarp can use, or two fifths of those for RPC-over-RDMA connections. With fewer,
// a flood of handshakes would leave others no time for theirs.
func (b *Budget) Handshakes() int {
	return min(b.RDMA*2/5, mostClosing+perListener*b.served)
}

// Connected is the number of descriptors for RPC-over-RDMA connections that are up.
func (b *Budget) Connected() int { return b.RDMA - b.Handshakes() }

// Connections is the largest number of RPC-over-RDMA connections, if each needs
// Want.PerConnection.
func (b *Budget) Connections() int { return b.Connected() / b.perRDMA }

// ControlClients is the largest number of connections of identified clients.
func (b *Budget) ControlClients() int { return max(b.Control/perClient, 1) }

// Scrapers is the largest number of connections to the metrics port.
func (b *Budget) Scrapers() int { return max(b.Metrics, 1) }

// connections is the key of the limit of RPC-over-RDMA connections.
const connections = "limits.connections"

// unreachable lists the limits that can't be reached, and what to do.
func (b *Budget) unreachable(w Want) (out []string) {
	for _, l := range []struct {
		key        string
		want, have int
	}{
		{connections, w.Connections, b.Connections()},
		{"limits.tcp_connections", w.TCP, b.TCP},
		{"limits.control.connections", w.Control, b.ControlClients()},
		{"limits.metrics.connections", w.Metrics, b.Scrapers()},
	} {
		if l.want > l.have {
			each := ""
			if l.key == connections && b.perRDMA > 1 {
				each = fmt.Sprintf(" of %d files each", b.perRDMA)
			}
			out = append(out, fmt.Sprintf("%s: %d can't be reached, %d%s can: only %d files may be open; "+
				"raise ulimit -n, or LimitNOFILE of the service", l.key, l.want, l.have, each, b.Limit))
		}
	}
	return out
}
