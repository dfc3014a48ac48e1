//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInterfacesWith(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	must(t, err)
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

// TestInterruptedList: a list during which addresses changed is an error. Otherwise a listener
// would take a missing address for gone and listen again.
func TestInterruptedList(t *testing.T) {
	dump, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	must(t, err)
	messages, err := syscall.ParseNetlinkMessage(dump)
	must(t, err)
	loopback := netip.MustParseAddr("127.0.0.1")
	if all, err := having(messages, loopback, 0); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	messages[len(messages)-1].Header.Flags |= unix.NLM_F_DUMP_INTR
	if all, err := having(messages, loopback, 0); !errors.Is(err, errInterrupted) {
		t.Errorf("interrupted: %v, %v", all, err)
	}
}
