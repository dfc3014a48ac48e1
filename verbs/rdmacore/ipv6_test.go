//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A listener on an IPv6 address of any scope can be reached. The connection has that address
// at both ends.
func TestIPv6(t *testing.T) {
	const global = "fd00:20:49::15"
	system(t, "/sbin/ip -6 addr replace "+global+"/64 dev "+network+" nodad")
	settled(t)
	usable(t, global)
	iface, err := net.InterfaceByName(network)
	must(t, err)
	byIndex := linkLocal(t, iface).WithZone(strconv.Itoa(iface.Index))
	for _, c := range []struct{ name, listen, dial string }{
		{"global", global, global},
		{"link-local by name", byIndex.WithZone(network).String(), byIndex.WithZone(network).String()},
		{"link-local by index", byIndex.String(), byIndex.String()},
		{"wildcard", "::", global},
	} {
		t.Run(c.name, func(t *testing.T) { testAddress(t, c.listen, c.dial) })
	}
	if strings.HasPrefix(*deviceFlag, "rxe") { // siw knows no IPv4 there
		t.Run("wildcard from IPv4", func(t *testing.T) { testAddress(t, "::", *addressFlag) })
	}
}

func testAddress(t *testing.T, listen, dial string) {
	o := newOutage(t, net.JoinHostPort(listen, "0"))
	o.waitHealth("")
	o.to = dial
	pair := o.connect()
	defer pair.Close()
	want := netip.MustParseAddr(dial).WithZone("")
	for _, side := range []*verbstest.Side{pair.A, pair.B} {
		for _, got := range []netip.AddrPort{side.ID.LocalAddr(), side.ID.RemoteAddr()} {
			if got.Addr().WithZone("") != want {
				t.Errorf("an end is %v, not at %v", got, want)
			}
		}
	}
	if a, b := pair.A.ID.LocalAddr().Port(), pair.B.ID.RemoteAddr().Port(); a != b {
		t.Errorf("the active side's port is %d here and %d there", a, b)
	}
}

// settled waits until the interface's addresses have been checked for duplicates:
// after the interface was down, the kernel does not send from its link-local
// address before that.
func settled(t *testing.T) {
	t.Helper()
	system(t, fmt.Sprintf("timeout %d sh -c 'while [ -n \"$(/sbin/ip -6 addr show dev %s tentative)\" ]; do sleep 0.1; done'",
		int(verbstest.Patience.Seconds()), network))
}

// usable waits until a device has an address that an interface has just got.
func usable(t *testing.T, address string) {
	t.Helper()
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	must(t, p.resolveNew(ctx, t, net.JoinHostPort(address, "1")).Close())
}

// linkLocal returns the link-local address of an interface.
func linkLocal(t *testing.T, iface *net.Interface) netip.Addr {
	t.Helper()
	all, err := iface.Addrs()
	must(t, err)
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
			return p.Addr()
		}
	}
	t.Fatalf("%s has no link-local address", iface.Name)
	return netip.Addr{}
}
