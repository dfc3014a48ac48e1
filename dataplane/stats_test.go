package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
)

// TestTotals: they are those of all listeners, ended connections included.
func TestTotals(t *testing.T) {
	p := newPlane(t, Config{})
	p.Start()
	var clients []*rpcrdma.Client
	for _, address := range []string{p.listen("a", echo.New()), p.listen("b", echo.New()), p.listen("c", echo.New())} {
		for range 2 {
			c, _ := p.dial(address, nil)
			if err := null(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
	}
	for up := len(clients); ; up-- {
		if connections, sum := p.Totals(); connections != up || sum.Calls != uint64(len(clients)) {
			t.Errorf("%d connections, %+v", connections, sum)
		}
		if up == 0 {
			break
		}
		clients[up-1].Close()
		p.next(ConnDown)
	}
}

// TestLimitsInStats: they are those that refuse connections, also if descriptors lower them.
func TestLimitsInStats(t *testing.T) {
	p := newPlane(t, Config{Limits: Limits{Connections: 100}})
	p.listenWith("a", Limits{Connections: 7}, Access{})
	p.listen("b", echo.New())
	p.Start()
	for descriptors, want := range map[int]int{0: 100, 1000: 100, 20: 20, 5: 5} {
		p.SetDescriptors(Descriptors{RDMA: descriptors})
		for _, s := range p.Stats() {
			own := want
			if s.Name == "a" {
				own = min(7, want)
			}
			if s.SharedConnections != want || s.MaxConnections != own {
				t.Errorf("%s with %d descriptors: %d of %d connections, want %d of %d", s.Name, descriptors, s.MaxConnections, s.SharedConnections, own, want)
			}
		}
	}
}

// TestTotalsOnlyGrow: the counters of a listener that was replaced or removed stay in the totals.
func TestTotalsOnlyGrow(t *testing.T) {
	p := newPlane(t, Config{})
	address := p.listen("a", echo.New())
	p.Start()
	c, _ := p.dial(address, nil)
	if err := null(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	totals := func(when string, up int) {
		t.Helper()
		if connections, sum := p.Totals(); connections != up || sum.Calls != 1 {
			t.Errorf("%s: %d connections, %+v", when, connections, sum)
		}
	}
	totals("at first", 1)
	old := p.listener("a")
	if _, err := p.add(ListenerConfig{Name: "a", Provider: p.judged, Service: "echo", Handler: echo.New(), From: old}); err != nil {
		t.Fatal(err)
	}
	totals("replaced", 1)
	c.Close()
	p.next(ConnDown)
	totals("while the old one is drained", 0)
	old.Remove(t.Context())
	totals("when the old one is gone", 0)
	p.listener("a").Remove(t.Context())
	totals("when all are gone", 0)
}
