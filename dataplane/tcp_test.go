package dataplane

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// tcpHolder is a TCP connection of a service.
type tcpHolder struct{ evicted bool }

func (*tcpHolder) Busy() bool                 { return false }
func (h *tcpHolder) Evict(connlimit.Eviction) { h.evicted = true }

// TestTCPLimits: the limits hold for all ports together, and change while
// connections are up.
func TestTCPLimits(t *testing.T) {
	p := newPlane(t, Config{TCP: TCPLimits{Connections: 2, Idle: time.Minute}})
	a := connlimit.New(time.Now(), connlimit.Config{Name: "a", Parent: p.TCPPlaces()})
	b := connlimit.New(time.Now(), connlimit.Config{Name: "b", Parent: p.TCPPlaces()})
	start := time.Now()
	admit := func(port *connlimit.Table, host byte, after time.Duration) (*tcpHolder, error) {
		h := new(tcpHolder)
		key := connlimit.Address(netip.AddrFrom4([4]byte{192, 0, 2, host}))
		place, err := port.Admit(start.Add(after), key, connlimit.Ordinary, h)
		if err == nil {
			place.Touch(start.Add(after))
			t.Cleanup(place.Leave)
		}
		return h, err
	}
	first, err := admit(a, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit(b, 2, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := admit(b, 3, 3*time.Second); err == nil {
		t.Error("a third connection has a place while two are in use")
	}
	p.SetTCPLimits(TCPLimits{Connections: 3, ConnectionsPerPeer: 1})
	if _, err := admit(b, 3, 4*time.Second); err != nil {
		t.Error(err)
	}
	if _, err := admit(a, 3, 5*time.Second); err == nil {
		t.Error("a peer has two places")
	}
	if _, err := admit(a, 4, time.Minute); err != nil || !first.evicted {
		t.Errorf("%v; the idlest was evicted: %v", err, first.evicted)
	}
	want := TCPLimits{Connections: 3, ConnectionsPerPeer: 1}.WithDefaults()
	if got := p.TCPLimits(); got != want || got.Idle != 6*time.Minute {
		t.Errorf("%+v, want %+v", got, want)
	}
}
