//go:build rdmacore && cgo

package rdmacore

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

func TestInterfacesWith(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address string
		want    []int
	}{
		{"127.0.0.1", []int{loopback.Index}},
		{"192.0.2.1", nil}, // RFC 5737: nobody's
	} {
		got, err := interfacesWith(netip.MustParseAddr(c.address))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s is on %v, not %v: %v", c.address, got, c.want, err)
		}
	}
	for zone, want := range map[string]int{"": 0, "lo": loopback.Index, "17": 17, "none": 0} {
		if got := zoneIndex(zone); got != want {
			t.Errorf("zone %q is %d, not %d", zone, got, want)
		}
	}
}
