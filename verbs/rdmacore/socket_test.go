//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestListensTCP(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		must(t, err)
		at := netip.MustParseAddrPort(ln.Addr().String())
		c, err := net.Dial("tcp", at.String())
		must(t, err)
		defer c.Close()
		passive, err := ln.Accept()
		must(t, err)
		defer passive.Close()
		any := netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
		if at.Addr().Is6() {
			any = netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())
		}
		expect := func(what string, want bool) {
			t.Helper()
			for _, a := range []netip.AddrPort{at, any} {
				if got, err := listensTCP(a); got != want || err != nil {
					t.Errorf("%s, %s: got %v, %v", a, what, got, err)
				}
			}
		}
		expect("with a listener", true)
		withoutFiles(t, func() {
			if _, err := listensTCP(at); err == nil {
				t.Error("it is known without a socket whether somebody listens")
			}
		})
		_ = ln.Close()
		expect("with a connection alone", false)
	}
}

// A listener whose socket is gone must listen again. siw's own fault leaves the kernel with
// freed memory, so the guest does not have it.
func TestSocketClosed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := netip.MustParseAddrPort(ln.Addr().String())
	had, never := &listener{at: at, socket: true}, &listener{at: at}
	if err := had.socketClosed(); err != nil {
		t.Errorf("with its socket: %v", err)
	}
	_ = ln.Close()
	if err := had.socketClosed(); !errors.Is(err, errSocketClosed) {
		t.Errorf("without its socket: %v", err)
	}
	if err := never.socketClosed(); err != nil {
		t.Errorf("without one from the start: %v", err)
	}
	withoutFiles(t, func() {
		if err := had.socketClosed(); err != nil {
			t.Errorf("when nothing can be known: %v", err)
		}
	})
}
