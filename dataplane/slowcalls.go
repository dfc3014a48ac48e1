package dataplane

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// maxSlowCalls is how many slow calls are kept.
const maxSlowCalls = 256

// SlowCall is a call that took at least as long as the limit, and where its time went.
type SlowCall struct {
	ConnKey                 // without ID and listener for a call over TCP to a service
	PeerPort netip.AddrPort // of the client
	Server   string         // what answered: a service, or a connector's target
	rpcrdma.SlowCall
}

// Name returns the names of program and procedure, such as "NFS READ", or "" for a program
// without a name.
func (c *SlowCall) Name() string {
	r := trace.RPC{Known: true, Program: c.Program, Version: c.Version, Procedure: c.Procedure}
	return r.Name()
}

// SlowCalls are the latest slow calls.
type SlowCalls struct {
	Limit time.Duration // shortest time of a slow call; 0 means that none is looked for
	Total uint64        // slow calls since the start
	Calls []SlowCall    // the newest first
}

// slowCalls keeps the latest slow calls.
type slowCalls struct {
	limit atomic.Int64 // ns

	mu    sync.Mutex
	total uint64
	ring  []SlowCall // once it is full, the oldest is at total % maxSlowCalls
}

// add keeps a call.
func (s *slowCalls) add(c SlowCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < maxSlowCalls {
		s.ring = append(s.ring, c)
	} else {
		s.ring[s.total%maxSlowCalls] = c
	}
	s.total++
}

// SetSlowCall sets the shortest time of a slow call. With 0 no calls are measured.
func (d *Dataplane) SetSlowCall(limit time.Duration) { d.slow.limit.Store(int64(limit)) }

// SlowCalls returns the latest slow calls of all listeners, connectors and services.
func (d *Dataplane) SlowCalls() SlowCalls {
	s := &d.slow
	s.mu.Lock()
	defer s.mu.Unlock()
	out := SlowCalls{Limit: time.Duration(s.limit.Load()), Total: s.total}
	oldest := 0
	if len(s.ring) == maxSlowCalls {
		oldest = int(s.total % maxSlowCalls)
	}
	out.Calls = append(slices.Clone(s.ring[oldest:]), s.ring[:oldest]...)
	slices.Reverse(out.Calls)
	return out
}

// logger returns a log whose lines name the connection.
func (c *conn) logger() *slog.Logger {
	return c.e.d.log.With("conn", c.key.ID, "listener", c.key.Listener)
}

// slowCalls returns what finds, keeps, counts and logs the slow calls of a connection.
func (c *conn) slowCalls(client netip.AddrPort, log *slog.Logger) rpcrdma.SlowCalls {
	d := c.e.d
	return rpcrdma.SlowCalls{Limit: &d.slow.limit, Report: func(s rpcrdma.SlowCall) {
		c.e.slow.Add(1)
		d.keepSlow(log, SlowCall{c.key, client, c.e.service, s})
	}}
}

// TCPSlowCalls returns what finds, keeps and logs the slow calls over TCP to a service.
func (d *Dataplane) TCPSlowCalls(service string) func(client netip.AddrPort) rpcrdma.SlowCalls {
	return func(client netip.AddrPort) rpcrdma.SlowCalls {
		return rpcrdma.SlowCalls{Limit: &d.slow.limit, Report: func(s rpcrdma.SlowCall) {
			d.keepSlow(d.log, SlowCall{ConnKey{Peer: client.Addr()}, client, service, s})
		}}
	}
}

// keepSlow keeps and logs a slow call.
func (d *Dataplane) keepSlow(log *slog.Logger, c SlowCall) {
	d.slow.add(c)
	log.Warn("slow call", "server", c.Server, "peer", c.PeerPort.String(),
		"xid", c.XID, "call", c.Name(), "program", c.Program, "version", c.Version, "procedure", c.Procedure,
		"took", c.Took, "receive", c.Receive, "rdma_read", c.Read, "service", c.Service, "post", c.Post, "completion", c.Completion, "lost", c.Lost,
		"upstream", c.Upstream)
}
