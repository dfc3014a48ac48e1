// Package procedures counts and times the calls of a service by procedure. Counting a call
// takes a few atomic additions. The table of a service is bounded: calls of procedures that
// package programs does not name are counted together.
package procedures

import (
	"context"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
)

// counts are the counters of one procedure.
type counts struct {
	time   histogram.Histogram // ns
	errors [Classes]atomic.Uint64
}

// Table holds the counters of one service.
type Table struct {
	// known has a slot for each procedure of each of programs.All, other one for the rest. A
	// slot is filled at its procedure's first call, as most services have few procedures.
	known [][]slot
	other slot
}

type slot struct{ atomic.Pointer[counts] }

// New makes a table without calls.
func New() *Table {
	t := &Table{known: make([][]slot, len(programs.All))}
	for i := range programs.All {
		t.known[i] = make([]slot, len(programs.All[i].Procedures))
	}
	return t
}

// of returns the counters of a call's procedure.
func (t *Table) of(call *oncrpc.Call) *counts {
	s := &t.other
	if i := programs.Find(call.Program, call.Version); i >= 0 && call.Procedure < uint32(len(t.known[i])) {
		s = &t.known[i][call.Procedure]
	}
	c := s.Load()
	if c == nil {
		s.CompareAndSwap(nil, new(counts))
		c = s.Load()
	}
	return c
}

// Count wraps a service so that t counts its calls. If next is a perconn.Opener, the result
// is one, too.
func (t *Table) Count(next oncrpc.Handler) oncrpc.Handler {
	c := counted{t, next}
	if o, ok := next.(perconn.Opener); ok {
		return opener{c, o}
	}
	return c
}

// counted counts the calls of a handler.
type counted struct {
	table *Table
	next  oncrpc.Handler
}

// ServeRPC implements oncrpc.Handler.
func (c counted) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	reply.Watch(c.table)
	return c.next.ServeRPC(ctx, call, reply)
}

// Served implements oncrpc.Watcher.
func (t *Table) Served(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply, began, ended time.Time, err error) {
	counts := t.of(call)
	counts.time.Record(uint64(max(ended.Sub(began), 0)))
	if ctx.Err() == nil { // otherwise nobody gets an answer
		if class := classOf(call, reply, err); class != success {
			counts.errors[class].Add(1)
		}
	}
}

// opener counts the calls of a service that keeps state for each connection.
type opener struct {
	counted
	perconn.Opener
}

// OpenConn implements perconn.Opener.
func (o opener) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	h, err := o.Opener.OpenConn(ctx, peer)
	if h == nil || err != nil {
		return nil, err
	}
	return session{h, counted{o.table, h}}, nil
}

// session counts the calls of one connection.
type session struct {
	perconn.Handler
	counted counted
}

// ServeRPC implements oncrpc.Handler.
func (s session) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	return s.counted.ServeRPC(ctx, call, reply)
}

// Traits implements perconn.Traited.
func (s session) Traits() perconn.Traits { return perconn.TraitsOf(s.Handler) }

// Stats are the counters of one procedure.
type Stats struct {
	Program, Version, Procedure string
	Errors                      [Classes]uint64
	Time                        *histogram.Snapshot // ns
}

// Total adds the counters of all procedures to sum.
func (t *Table) Total(sum *Stats) {
	t.Each(func(s *Stats) {
		sum.Time.Add(s.Time)
		for i, n := range s.Errors {
			sum.Errors[i] += n
		}
	})
}

// other stands for the names of a procedure without one.
const other = "other"

// Each visits the procedures that were called.
func (t *Table) Each(visit func(*Stats)) {
	for i := range t.known {
		p := &programs.All[i]
		for proc := range t.known[i] {
			t.known[i][proc].visit(visit, p.Name, strconv.FormatUint(uint64(p.Version), 10), p.Procedures[proc])
		}
	}
	t.other.visit(visit, other, "", other)
}

func (s *slot) visit(visit func(*Stats), program, version, procedure string) {
	c := s.Load()
	if c == nil {
		return
	}
	stats := Stats{Program: program, Version: version, Procedure: procedure, Time: new(histogram.Snapshot)}
	c.time.Snapshot(stats.Time)
	for i := range c.errors {
		stats.Errors[i] = c.errors[i].Load()
	}
	visit(&stats)
}
