package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/procedures"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// service answers each call after a time, with an NFS status or an RPC error.
type service struct {
	table  *procedures.Table
	takes  time.Duration
	status uint32
	err    error
}

func (s *service) ServeRPC(_ context.Context, _ *oncrpc.Call, reply *oncrpc.Reply) error {
	time.Sleep(s.takes) // of the bubble
	reply.Stream = xdr.AppendUint32(reply.Stream, s.status)
	return s.err
}

// serve makes calls of a procedure.
func (s *service) serve(t *testing.T, procedure uint32, n int) {
	h := s.table.Count(s)
	for range n {
		c := oncrpc.Call{}
		c.Program, c.Version, c.Procedure = programs.NFS, 3, procedure
		_ = oncrpc.Serve(t.Context(), h, &c, new(oncrpc.Reply))
	}
}

// TestLoad: calls of all procedures and services and of connectors count, errors are those that
// are not the client's, and each load begins where the last one ended.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &service{table: procedures.New()}, &service{table: procedures.New()}
		services := map[string]*procedures.Table{"a": a.table, "b": b.table}
		listener := &dataplane.ListenerStats{ListenerInfo: dataplane.ListenerInfo{EndpointInfo: dataplane.EndpointInfo{Name: "a", Connections: 3}}}
		connector := dataplane.ConnectorInfo{EndpointInfo: dataplane.EndpointInfo{Name: "a", Connections: 2}, TCP: dataplane.ConnectorStats{Calls: 1000, Failed: 100}}
		a.serve(t, 1, 50) // before the meter
		m := telemetry.NewMeter(telemetry.Counters{
			Services:   func() map[string]*procedures.Table { return services },
			Listeners:  func() []*dataplane.ListenerStats { l := *listener; return []*dataplane.ListenerStats{&l} },
			Connectors: func() []dataplane.ConnectorInfo { return []dataplane.ConnectorInfo{connector} },
		}, time.Now())
		check := func(want telemetry.Load) {
			t.Helper()
			time.Sleep(10*time.Second - time.Since(time.Now().Truncate(10*time.Second)))
			got := m.Load(time.Now())
			if p99 := got.P99; p99 < want.P99*31/32 || p99 > want.P99*33/32 {
				t.Errorf("p99 %v, want %v", p99, want.P99)
			}
			got.P99 = want.P99
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		a.takes, b.takes = time.Millisecond, 20*time.Millisecond
		a.serve(t, 1, 90)
		b.serve(t, 6, 10)
		check(telemetry.Load{Calls: 10, P99: 20 * time.Millisecond, Connections: 5})
		a.status = 2 // NOENT: part of normal work
		a.serve(t, 3, 100)
		check(telemetry.Load{Calls: 10, P99: time.Millisecond, Connections: 5})
		a.status = 5 // IO
		a.serve(t, 6, 20)
		a.err = errors.New("no answer of the upstream")
		a.serve(t, 6, 30)
		listener.Totals.Errors += 10
		connector.TCP = dataplane.ConnectorStats{Calls: 1050, Failed: 110}
		connector.Totals = rpcrdma.Stats{Errors: 20, BadReplies: 10}
		check(telemetry.Load{Calls: 10, Errors: 10, P99: time.Millisecond, Connections: 5})
		connector.TCP, connector.Totals = dataplane.ConnectorStats{}, rpcrdma.Stats{} // removed and added again
		delete(services, "a")
		check(telemetry.Load{Connections: 5})
		listener.Totals.Errors, listener.Since = 40, time.Now() // the same, with more errors than before
		connector.TCP, connector.Since = dataplane.ConnectorStats{Calls: 2000, Failed: 60}, time.Now()
		check(telemetry.Load{Calls: 200, Errors: 10, Connections: 5})
		c := &service{table: procedures.New(), takes: time.Millisecond}
		c.serve(t, 0, 10)
		services["c"] = c.table // its first calls came before the meter saw it
		check(telemetry.Load{Calls: 1, P99: time.Millisecond, Connections: 5})
	})
}

// TestNoTime: two looks at the same time divide nothing by it.
func TestNoTime(t *testing.T) {
	a := &service{table: procedures.New()}
	m := telemetry.NewMeter(telemetry.Counters{
		Services:   func() map[string]*procedures.Table { return map[string]*procedures.Table{"a": a.table} },
		Listeners:  func() []*dataplane.ListenerStats { return nil },
		Connectors: func() []dataplane.ConnectorInfo { return nil },
	}, start)
	a.serve(t, 1, 1)
	if got := m.Load(start); got.Calls != 0 {
		t.Errorf("%+v", got)
	}
}
