package dataplane

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// endpoint is the common part of listeners and connectors: a name to which settings refer,
// and connections with their own limits, for peers or clients that have access.
type endpoint struct {
	d        *Dataplane
	kind     string // listener or connector
	name     string // unique among both
	provider rdmacm.Provider
	service  string // what answers the calls: a listener's service or a connector's target
	since    time.Time
	// descriptors are those of one connection, and of what is opened for it.
	descriptors int

	calls      *measured
	handshakes budget.Budget // connections being made
	accepted   atomic.Uint64
	slow       atomic.Uint64 // calls
	refused    refusalLog
	access     atomic.Pointer[Access] // changed under Dataplane.mu
	places     *connlimit.Table       // connections being made or up
	defaults   Limits                 // used for limits that are 0
	table      func() connlimit.Limits

	// Under Dataplane.mu:
	draining bool // being removed
	limits   Limits
	up       int // connections
	sums     sums
}

// EndpointInfo describes the common part of listeners and connectors.
type EndpointInfo struct {
	Name, Provider string
	Address        netip.AddrPort // as bound
	State          string         // up; degraded; draining while it is being removed, or rdmad ends
	Connections    int
	Accepted       uint64 // connections that came up
	SlowCalls      uint64
	Refused        uint64 // handshakes, connections and clients refused, for all reasons
	Refusals       Refusals
	Since          time.Time
	Limits         Limits // defaults filled in
	Access         Access // must not be changed
}

// init prepares the endpoint and checks access. The error is an *AccessError.
func (e *endpoint) init(d *Dataplane, limits Limits, access Access) error {
	a, err := access.normal()
	if err != nil {
		return err
	}
	e.d, e.since, e.calls = d, time.Now(), new(measured)
	e.places = connlimit.New(e.since, connlimit.Config{Name: e.kind + " " + e.name, Parent: d.places, Weight: e.descriptors})
	e.access.Store(a)
	e.setLimitsLocked(limits) // no other goroutine uses it yet
	return nil
}

// failed adds the endpoint's kind and name to an error.
func (e *endpoint) failed(err error) error { return fmt.Errorf("%s %s: %w", e.kind, e.name, err) }

// Update changes limits and access for new connections, completely or not at all. The error
// is that of CheckAccess, with the endpoint's name.
func (e *endpoint) Update(limits Limits, access Access) error {
	a, err := access.normal()
	if err != nil {
		return e.failed(err)
	}
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	e.access.Store(a)
	e.setLimitsLocked(limits)
	return nil
}

// setLimitsLocked applies limits.
func (e *endpoint) setLimitsLocked(v Limits) {
	e.limits = v.withDefaults(e.defaults)
	e.places.SetLimits(e.table())
	e.handshakes.SetLimit(int64(e.limits.Handshakes))
}

// Stopping ends the admission of connections.
func (e *endpoint) Stopping() {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	e.draining = true
}

// stopsLocked reports whether connections may no longer be admitted.
func (e *endpoint) stopsLocked() bool { return e.draining || e.d.stopping }

// drain drains the connections, and closes the remaining ones when ctx ends; see drainAll for more.
func (e *endpoint) drain(ctx context.Context, more func() bool) Removed {
	reason := "the " + e.kind + " was removed"
	e.d.mu.Lock()
	if e.d.stopping {
		reason = reasonShutdown
	}
	e.d.mu.Unlock()
	all, cut := e.d.drainAll(ctx, reason, func(c *conn) bool { return c.e == e }, more)
	return Removed{Drained: all - cut, Cut: cut}
}

// EnterHandshake waits for room among the connections being made, of the endpoint and of all
// together, and takes it. LeaveHandshake returns it. If ctx ends first, the error is a
// *RefusedError.
func (e *endpoint) EnterHandshake(ctx context.Context) error {
	if e.handshakes.Acquire(ctx, 1) == nil {
		if e.d.handshakes.Acquire(ctx, 1) == nil {
			return nil
		}
		e.handshakes.Release(1)
	}
	return &RefusedError{RefusedHandshake, "too many connections are being made at once"}
}

// LeaveHandshake returns the room that EnterHandshake took.
func (e *endpoint) LeaveHandshake() {
	e.d.handshakes.Release(1)
	e.handshakes.Release(1)
}

// newConn makes a connection without a place and an id.
func (e *endpoint) newConn() *conn {
	c := &conn{e: e, key: ConnKey{Listener: e.name}, gone: make(chan struct{})}
	c.handler.measured, c.handler.moved = e.calls, &c.moved
	return c
}

// numberLocked gives a connection that has a place its id. The ids of connections that do
// not come up are not reused.
func (c *conn) numberLocked() {
	c.e.d.lastID++
	c.key.ID = strconv.FormatUint(c.e.d.lastID, 10)
}

// resolve gives its settings to a connection whose peer is known.
func (c *conn) resolve() {
	d := c.e.d
	d.mu.Lock()
	resolve := d.resolve
	c.revision = d.revision
	d.mu.Unlock()
	c.atConnect = resolve(c.key)
	c.settings.Store(c.atConnect)
}

// commonLocked describes the endpoint, without the fields of only one kind.
func (e *endpoint) commonLocked(address netip.AddrPort) EndpointInfo {
	info := EndpointInfo{
		Name: e.name, Provider: e.provider.Name(), Address: address, State: StateUp,
		Connections: e.up, Accepted: e.accepted.Load(), SlowCalls: e.slow.Load(), Refusals: e.refused.snapshot(), Since: e.since,
		Limits: e.limits, Access: *e.access.Load(),
	}
	info.Refused = info.Refusals.Sum()
	if e.stopsLocked() {
		info.State = StateDraining
	}
	return info
}

// described returns the descriptions of all endpoints of one kind, by name.
func described[E interface{ infoLocked() I }, I any](d *Dataplane, all map[string]E) []I {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]I, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name].infoLocked())
	}
	return out
}
