package dataplane

import (
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// TestDescriptorsLowerLimits: descriptors bound the limits, and the configured limits apply
// again when there are enough descriptors.
func TestDescriptorsLowerLimits(t *testing.T) {
	p := New(Config{Descriptors: Descriptors{Connections: 20, TCP: 12}})
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
	if err := p.SetLimits(Limits{Connections: 100, ConnectionsPerPeer: 50}); err != nil {
		t.Fatal(err)
	}
	if err := p.SetTCPLimits(TCPLimits{Connections: 8, ConnectionsPerPeer: 2}); err != nil {
		t.Fatal(err)
	}
	check(20, 5, 8, 2)
	if l, tcp := p.Limits(), p.TCPLimits(); l.Connections != 100 || l.ConnectionsPerPeer != 50 || tcp.Connections != 8 {
		t.Errorf("asked for %+v and %+v", l, tcp)
	}
	p.SetDescriptors(Descriptors{Connections: 1000, TCP: 4})
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
	}{{Config{Descriptors: Descriptors{Connections: 4}}, true}, {Config{Limits: Limits{Connections: 4, ConnectionsPerPeer: 1}}, false}} {
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

// busyHolder is a connection in use.
type busyHolder struct{}

func (*busyHolder) Busy() bool               { return true }
func (*busyHolder) Evict(connlimit.Eviction) {}
