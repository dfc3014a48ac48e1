package telemetry

import (
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/dataplane/procedures"
)

// Load is the work of a whole rdmad in a time.
type Load struct {
	// Calls are those of services and connectors, over RDMA and TCP. Errors are the calls that
	// were answered with an error that is not the client's, and the errors of RDMA connections.
	Calls, Errors float64 // per second
	P99           time.Duration
	Connections   int // at the time's end
}

// Counters are the inputs of a Meter.
type Counters struct {
	Services   func() map[string]*procedures.Table
	Listeners  func() []*dataplane.ListenerStats
	Connectors func() []dataplane.ConnectorInfo
}

// Meter measures the load of an rdmad. It is for one goroutine.
type Meter struct {
	counters Counters
	at       time.Time
	before   map[string]*tally
}

// tally has the counters of a service, listener or connector.
type tally struct {
	calls, errors uint64
	time          *histogram.Snapshot // of a service; else nil
	began         time.Time           // of a listener or connector
}

// NewMeter returns a meter whose first load begins now.
func NewMeter(c Counters, now time.Time) *Meter {
	m := &Meter{counters: c, at: now}
	m.before, _ = m.look()
	return m
}

// Load returns the work since the last call.
func (m *Meter) Load(now time.Time) Load {
	after, connections := m.look()
	before, seconds := m.before, now.Sub(m.at).Seconds()
	m.before, m.at = after, now
	out := Load{Connections: connections}
	var calls, errors uint64
	var served histogram.Snapshot
	for name, a := range after {
		b := before[name]
		if b == nil || !b.began.Equal(a.began) { // added, or added again
			b = &tally{}
		}
		calls += a.calls - min(a.calls, b.calls)
		errors += a.errors - min(a.errors, b.errors)
		if a.time != nil {
			served.Add(a.since(b))
		}
	}
	if seconds > 0 {
		out.Calls, out.Errors = float64(calls)/seconds, float64(errors)/seconds
	}
	out.P99 = time.Duration(served.Quantile(0.99))
	return out
}

// since is the time of the calls that came after another look.
func (t *tally) since(before *tally) *histogram.Snapshot {
	if before.time == nil {
		return t.time
	}
	var s histogram.Snapshot
	s.Between(before.time, t.time)
	return &s
}

// look reads all counters.
func (m *Meter) look() (all map[string]*tally, connections int) {
	all = make(map[string]*tally)
	for name, t := range m.counters.Services() {
		sum := procedures.Stats{Time: new(histogram.Snapshot)}
		t.Total(&sum)
		all["service/"+name] = &tally{calls: sum.Time.Count, errors: sum.Errors[procedures.RPC] + sum.Errors[procedures.Server], time: sum.Time}
	}
	for _, l := range m.counters.Listeners() {
		all["listener/"+l.Name] = &tally{errors: l.Totals.Errors, began: l.Since} // its calls are those of the service
		connections += l.Connections
	}
	for _, c := range m.counters.Connectors() {
		all["connector/"+c.Name] = &tally{calls: c.TCP.Calls, errors: c.TCP.Failed + c.Totals.Errors + c.Totals.BadReplies, began: c.Since}
		connections += c.Connections
	}
	return all, connections
}
