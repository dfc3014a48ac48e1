package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// plainSums are read from each connection.
type plainSums struct {
	stats    rpcrdma.Stats
	spent    int64
	versions [3]int
	up       int
}

// walk reads connections, of which some have ended.
func walk(all []*conn) (s plainSums) {
	for _, c := range all {
		one, info := c.link.Stats(), c.link.Info()
		s.stats.Add(&one)
		s.spent += c.handler.spent.Load()
		if !c.ended() {
			s.up++
			s.versions[agreed(&info)]++
		}
	}
	return s
}

// kept returns the same as the data plane has it.
func (p *plane) kept() (s plainSums, err error) {
	s.up, s.stats = p.Totals()
	var listeners rpcrdma.Stats
	for _, l := range p.Stats() {
		listeners.Add(&l.Totals)
		for i, n := range l.Versions {
			s.versions[i] += n
		}
		if l.InFlight != 0 {
			return s, fmt.Errorf("%d calls in flight", l.InFlight)
		}
	}
	if listeners != s.stats {
		return s, fmt.Errorf("the listeners have %+v", listeners)
	}
	list, others, _ := p.Clients().List(0)
	var sum clients.Counters
	n := 0
	for _, c := range append(list, others) {
		n += c.Connections
		sum.Calls += c.Calls
		sum.Errors += c.Errors
		sum.BytesReceived += c.BytesReceived
		sum.BytesSent += c.BytesSent
		sum.Time += c.Time
	}
	s.spent = int64(sum.Time)
	if st := &s.stats; n != s.up || sum.Calls != st.Calls || sum.Errors != st.Errors || sum.BytesReceived != st.BytesReceived || sum.BytesSent != st.BytesSent {
		return s, fmt.Errorf("clients have %d connections and %+v", n, sum)
	}
	return s, nil
}

// exact compares the two while nothing changes.
func (p *plane) exact(all []*conn) {
	p.t.Helper()
	for p.t.Context().Err() == nil {
		before := walk(all)
		kept, err := p.kept()
		if walk(all) != before {
			continue // the end of a call is counted after its client has the reply
		}
		if err != nil || kept != before {
			p.t.Fatalf("%v: %+v, want %+v", err, kept, before)
		}
		return
	}
	p.t.Fatal("the counters do not come to rest")
}

// grows fails the test if counters fall before over is closed.
func (p *plane) grows(over <-chan struct{}) {
	for _, before := p.Totals(); ; {
		_, now := p.Totals()
		var did rpcrdma.Stats
		did.AddSince(&before, &now)
		for v, i := reflect.ValueOf(did), 0; i < v.NumField(); i++ {
			if v.Field(i).Uint() > 1<<62 {
				p.t.Errorf("%s fell: %+v, then %+v", v.Type().Field(i).Name, before, now)
			}
		}
		before = now
		p.Stats()
		p.Clients().Export(time.Now())
		select {
		case <-over:
			return
		default:
		}
	}
}

// TestSumsAreExact: after calls, ends and new connections at random, the statistics of all
// connections are those that a walk over them finds. They never fall meanwhile.
func TestSumsAreExact(t *testing.T) {
	p := newPlane(t, Config{})
	addresses := []string{p.listen("a", echo.New()), p.listen("b", echo.New())}
	p.Start()
	rng := rand.New(rand.NewPCG(1, 2))
	var up []*rpcrdma.Client
	var all []*conn
	for range 20 {
		for len(up) < 6 {
			c, info := p.dial(addresses[rng.IntN(2)], nil)
			one, err := p.find(info.ID)
			if err != nil {
				t.Fatal(err)
			}
			up, all = append(up, c), append(all, one)
		}
		ending := rng.IntN(4)
		var calling sync.WaitGroup
		for i, c := range up {
			sizes := make([]int, rng.IntN(4))
			for j := range sizes {
				sizes[j] = rng.IntN(20000)
			}
			calling.Go(func() {
				for _, n := range sizes {
					if err := c.Call(t.Context(), &rpcrdma.Call{
						Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho,
						Args: xdr.AppendOpaque(nil, make([]byte, n)), MaxReply: n + 8,
					}); err != nil {
						t.Error(err)
					}
				}
				if i < ending {
					c.Close()
				}
			})
		}
		over := make(chan struct{})
		var looking sync.WaitGroup
		looking.Go(func() { p.grows(over) })
		looking.Go(func() { p.grows(over) })
		calling.Wait()
		close(over)
		looking.Wait()
		up = up[ending:]
		for range ending {
			p.next(ConnDown)
		}
		p.exact(all)
	}
}

// counted returns a data plane with a connection that did nothing yet.
func counted(t *testing.T) (*plane, *rpcrdma.Client, *conn) {
	p := newPlane(t, Config{})
	address := p.listen("a", echo.New())
	p.Start()
	client, info := p.dial(address, nil)
	c, err := p.find(info.ID)
	if err != nil {
		t.Fatal(err)
	}
	p.Totals()
	return p, client, c
}

// TestInFlightInStats: a call counts while the service has it, also if nothing else happens on
// its connection.
func TestInFlightInStats(t *testing.T) {
	p, _, c := counted(t)
	g := newGate()
	c.handler.next = g
	served := make(chan error)
	go func() {
		var reply oncrpc.Reply
		call := oncrpc.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcNull}
		served <- oncrpc.Serve(t.Context(), &c.handler, &call, &reply)
	}()
	<-g.entered
	for range 3 {
		if n := p.Stats()[0].InFlight; n != 1 {
			t.Errorf("%d while it is served", n)
		}
	}
	close(g.open)
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if n := p.Stats()[0].InFlight; n != 0 {
		t.Errorf("%d after that", n)
	}
}

// nobody is a client that keeps its place.
type nobody struct{}

func (nobody) Busy() bool               { return true }
func (nobody) Evict(connlimit.Eviction) {}

// TestSeatInStats: calls of a connector's client count, and their times, also if nothing else
// happens on its connection.
func TestSeatInStats(t *testing.T) {
	p := newPlane(t, Config{})
	target := p.listen("a", echo.New())
	k, err := p.PrepareConnector(ConnectorConfig{Name: "out", Provider: p.judged, Stats: func() (s ConnectorStats) { return s }})
	if err != nil {
		t.Fatal(err)
	}
	k.Enter()
	p.Start()
	seat, err := k.Admit(netip.MustParseAddrPort("192.0.2.1:1000"), nobody{})
	if err != nil {
		t.Fatal(err)
	}
	seat.Target(netip.MustParseAddrPort(target))
	c, err := p.open(p.judged, target, rpcrdma.DialConfig{Settings: seat.Settings(), Moved: seat.Moved()})
	if err != nil {
		t.Fatal(err)
	}
	p.next(ConnUp) // at the target
	seat.Up(c, nil, nil)
	p.next(ConnUp)
	if err := null(t.Context(), c); err != nil {
		t.Error(err)
	}
	if calls := p.Connectors()[0].Totals.Calls; calls != 1 {
		t.Errorf("%d calls", calls)
	}
	for i := range 3 {
		seat.Took(time.Second)
		list, _, _ := p.Clients().List(0)
		at := slices.IndexFunc(list, func(c clients.Client) bool { return c.Address == netip.MustParseAddr("192.0.2.1") })
		if want := time.Duration(i+1) * time.Second; at < 0 || list[at].Time != want {
			t.Errorf("after %v: %+v", want, list)
		}
	}
	c.Close()
	seat.Down()
}

// hooked is a connection whose counters are read between two hooks.
type hooked struct {
	Link
	before, after func()
}

func (h *hooked) Stats() rpcrdma.Stats {
	h.before()
	defer h.after()
	return h.Link.Stats()
}

// hook puts hooks around the next reads of c.
func (c *conn) hook(before, after func()) {
	d := c.e.d
	d.counting.Lock()
	defer d.counting.Unlock()
	c.link = &hooked{c.link, before, after}
}

// TestMovedWhileCounted: what happens after a connection was read counts the next time.
func TestMovedWhileCounted(t *testing.T) {
	p, client, c := counted(t)
	calls := 1
	c.hook(func() {}, func() {
		if calls == 1 {
			calls++
			if err := null(t.Context(), client); err != nil {
				t.Error(err)
			}
		}
	})
	if err := null(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for want := range uint64(2) {
		if _, sum := p.Totals(); sum.Calls != want+1 {
			t.Errorf("%d calls, want %d", sum.Calls, want+1)
		}
	}
}

// TestCountedByTwo: the sums have what another goroutine has begun to count.
func TestCountedByTwo(t *testing.T) {
	p, client, c := counted(t)
	if err := null(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	reading, read := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.hook(func() {
		once.Do(func() { close(reading) })
		<-read
	}, func() {})
	var looking sync.WaitGroup
	look := func() {
		if _, sum := p.Totals(); sum.Calls != 1 {
			t.Errorf("%d calls", sum.Calls)
		}
	}
	looking.Go(look)
	<-reading
	looking.Go(look)
	for range 1000 {
		runtime.Gosched() // the second one comes as far as it can
	}
	close(read)
	looking.Wait()
}

// TestIdleIsNotCounted: an idle connection is not read again, whatever runs beside it.
func TestIdleIsNotCounted(t *testing.T) {
	for name, policy := range map[string]rpcrdma.CreditsPolicy{"fixed": rpcrdma.CreditsFixed, "adaptive": rpcrdma.CreditsAdaptive} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane(t, Config{Resolver: resolver(func(s *rpcrdma.Settings) { s.CreditsPolicy = policy })})
				address := p.listen("a", echo.New())
				p.Start()
				for range 3 {
					c, _ := p.dial(address, nil)
					if err := null(t.Context(), c); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				for range 10 {
					if n, sum := p.Totals(); n != 3 || sum.Calls != 3 {
						t.Errorf("%d connections, %+v", n, sum)
					}
					p.Connections()
					time.Sleep(7 * time.Second)
					synctest.Wait()
					for _, c := range p.snapshot() {
						if c.moved.IsSet() {
							t.Errorf("connection %s would be read", c.key.ID)
						}
					}
				}
			})
		})
	}
}

// BenchmarkIdleConnections is what a status and a scrape cost beside 4,096 connections that do
// nothing, and when all of them did something since the last one.
func BenchmarkIdleConnections(b *testing.B) {
	const n = 4096
	must := verbstest.Must
	p := loopback.New(loopback.Config{})
	d := New(Config{
		Limits:   Limits{Connections: n, ConnectionsPerPeer: n},
		Resolver: resolver(func(s *rpcrdma.Settings) { s.InlineReceiveSize = rpcrdma.InlineMin }),
	})
	l, err := d.PrepareListener(b.Context(), ListenerConfig{Name: "a", Provider: p, Address: "127.0.0.1:0", Service: "echo", Handler: echo.New()})
	must(b, err)
	l.Enter()
	d.Start()
	pd, err := p.Device().AllocPD()
	must(b, err)
	cq, err := p.Device().CreateCQ(2)
	must(b, err)
	events, ids := d.Subscribe(2*n), make([]rdmacm.ID, n)
	for i := range ids {
		ids[i], err = p.Resolve(b.Context(), l.Info().Address.String())
		must(b, err)
		_, err = ids[i].CreateQP(pd, verbs.QPAttr{SendCQ: cq, RecvCQ: cq, MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1})
		must(b, err)
		must(b, ids[i].Connect(b.Context(), rdmacm.ConnParam{}))
		<-events.Events()
	}
	status := func() { d.Totals() }
	metrics := func() {
		d.Stats()
		d.Clients().Export(time.Now())
		d.Connectors()
	}
	for _, bench := range []struct {
		name string
		do   func()
	}{{"status", status}, {"metrics", metrics}} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				bench.do()
			}
		})
		b.Run(bench.name+" after calls", func(b *testing.B) {
			for b.Loop() {
				for _, c := range d.conns.all {
					c.moved.Set()
				}
				bench.do()
			}
		})
	}
	must(b, d.Shutdown(context.Background()))
	for _, id := range ids {
		must(b, id.Close())
	}
	must(b, cq.Close())
	must(b, pd.Close())
	must(b, p.Close())
}
