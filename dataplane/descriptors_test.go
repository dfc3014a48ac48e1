package dataplane

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestDescriptorsLowerLimits: descriptors bound the limits, and the configured limits apply
// again when there are enough descriptors.
func TestDescriptorsLowerLimits(t *testing.T) {
	p := New(Config{Descriptors: Descriptors{RDMA: 20, TCP: 12}})
	defer p.cancel()
	check := func(connections, perPeer, tcp, tcpPerPeer int) {
		t.Helper()
		if l := p.places.Limits(); l.Total != connections || l.PerKey != perPeer {
			t.Errorf("RPC over RDMA: %+v", l)
		}
		if l := p.tcp.Limits(); l.Total != tcp || l.PerKey != tcpPerPeer {
			t.Errorf("TCP: %+v", l)
		}
	}
	check(20, 5, 12, 3)
	p.SetLimits(Limits{Connections: 100, ConnectionsPerPeer: 50})
	p.SetTCPLimits(TCPLimits{Connections: 8, ConnectionsPerPeer: 2})
	check(20, 5, 8, 2)
	if l, tcp := p.Limits(), p.TCPLimits(); l.Connections != 100 || l.ConnectionsPerPeer != 50 || tcp.Connections != 8 {
		t.Errorf("asked for %+v and %+v", l, tcp)
	}
	p.SetDescriptors(Descriptors{RDMA: 1000, TCP: 4})
	check(100, 50, 4, 1)
	p.SetDescriptors(Descriptors{})
	check(100, 50, 8, 2)
}

// TestWantOfDescriptors: a refusal says what to raise if more descriptors would have helped,
// and only then.
func TestWantOfDescriptors(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		says bool
	}{{Config{Descriptors: Descriptors{RDMA: 4}}, true}, {Config{Limits: Limits{Connections: 4, ConnectionsPerPeer: 1}}, false}} {
		p := New(c.cfg)
		t.Cleanup(p.cancel)
		h := new(busyHolder)
		if _, err := p.places.Admit(time.Now(), connlimit.Name("a"), connlimit.Ordinary, h); err != nil {
			t.Fatal(err)
		}
		_, err := p.places.Admit(time.Now(), connlimit.Name("a"), connlimit.Ordinary, h)
		if err == nil || !strings.Contains(err.Error(), "all 1 connections") {
			t.Fatalf("a second connection: %v", err)
		}
		p.mu.Lock()
		if got := p.wantsDescriptorsLocked(err); got != c.says {
			t.Errorf("%+v: %v", c.cfg, got)
		}
		p.mu.Unlock()
	}
}

// files is a provider with a number of descriptors for each connection.
type files struct {
	rdmacm.Provider
	each int
}

func (f files) Descriptors() int { return f.each }

// TestConnectionsHaveTheirDescriptors: each listener's and connector's connections take the
// descriptors of their provider, their service and their client.
func TestConnectionsHaveTheirDescriptors(t *testing.T) {
	p := newPlane(t, Config{Descriptors: Descriptors{RDMA: 20}})
	add := func(name string, provider, service int) *connlimit.Table {
		t.Helper()
		if _, err := p.add(ListenerConfig{
			Name: name, Provider: files{p.p, provider}, Address: "127.0.0.1:0", Descriptors: service, Handler: echo.New(),
		}); err != nil {
			t.Fatal(err)
		}
		return p.listeners[name].places
	}
	fill := func(table *connlimit.Table) (n int) {
		for {
			place, err := table.Admit(time.Now(), connlimit.Name(strconv.Itoa(n)), connlimit.Ordinary, new(busyHolder))
			if err != nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				if !p.wantsDescriptorsLocked(err) {
					t.Errorf("refused: %v", err)
				}
				return n
			}
			defer place.Leave()
			n++
		}
	}
	check := func(what string, table *connlimit.Table, connections, most int) {
		t.Helper()
		if n := fill(table); n != connections || p.PerConnection() != most {
			t.Errorf("%s: %d connections, PerConnection %d; want %d, %d", what, n, p.PerConnection(), connections, most)
		}
	}
	nfs := add("nfs", 1, 0)
	check("nfs on softiwarp", nfs, 20, 1)
	check("forward on softiwarp", add("forward", 1, 1), 10, 2)
	k, err := p.PrepareConnector(ConnectorConfig{Name: "out", Provider: files{p.p, 2}, Stats: func() (s ConnectorStats) { return s }})
	if err != nil {
		t.Fatal(err)
	}
	k.Enter()
	check("a connector on rdmacore", k.places, 6, 3)
	check("nfs on softiwarp beside them", nfs, 20, 3)
	k.Remove(t.Context(), func() {}, func() {})
	p.listener("forward").Remove(t.Context())
	if n := p.PerConnection(); n != 1 {
		t.Errorf("without them: PerConnection %d", n)
	}
}

// busyHolder is a connection in use.
type busyHolder struct{}

func (*busyHolder) Busy() bool               { return true }
func (*busyHolder) Evict(connlimit.Eviction) {}
