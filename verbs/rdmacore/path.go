//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rxe of Linux 6.1 can become deaf. Connection managers talk through one queue pair of the
// device. If one of their messages finds no path, because the interface is down or the
// address is gone, rxe_requester puts that queue pair into an error state. ib_mad moves it
// back to RTS (ib_mad_send_error), but then it only sends and does not receive. From then
// on no program receives connection messages through the device. So the peer is notified of
// a connection's end only while there is a path. Until then the identifier is kept, even
// after its Close.

// hold reports whether the peer can't be notified of the connection's end now. The provider
// then does so later.
func (id *connID) hold() bool {
	if id.pathOpen() {
		return false
	}
	id.mu.Lock()
	id.held = true
	id.mu.Unlock()
	id.p.mu.Lock()
	defer id.p.mu.Unlock()
	id.p.held = append(id.p.held, id)
	return true
}

// leave reports whether the closed identifier is kept until the peer is notified of the
// connection's end.
func (id *connID) leave() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.left = id.held
	return id.held
}

// tell notifies the peer of the connection's end, which was held.
func (id *connID) tell() {
	id.mu.Lock() // prevents that it is destroyed meanwhile
	command(func() C.int { return C.rdmad_disconnect(id.c) })
	id.held = false
	left := id.left
	id.mu.Unlock()
	if left {
		id.destroy()
	}
}

// pathOpen reports whether the device can reach the peer, as far as that is known.
func (id *connID) pathOpen() bool {
	return !id.dev.is(vendorRXE) || pathOpen(id.dev.ctx.nameNow(), id.LocalAddr().Addr(), id.RemoteAddr().Addr())
}

// tellHeld notifies the peers of held ends for which may returns true.
func (p *Provider) tellHeld(may func(*connID) bool) {
	var now []*connID
	p.mu.Lock()
	p.held = slices.DeleteFunc(p.held, func(id *connID) bool {
		if !may(id) {
			return false
		}
		now = append(now, id)
		return true
	})
	p.mu.Unlock()
	for _, id := range now {
		id.tell()
	}
}

// udpPort is the UDP port of RoCEv2 (InfiniBand specification annex A17.5).
const udpPort = 4791

// pathOpen reports whether packets of an rxe device have a path: its interface is up, the
// device has the source address, and there is a route.
func pathOpen(device string, from, to netip.Addr) bool {
	i, err := rxeInterface(device)
	if err != nil || i.Flags&net.FlagUp == 0 || !addressAbove(i, from) {
		return false
	}
	// Connecting a UDP socket sends nothing and looks up the route.
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, udpPort)))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// addressAbove reports whether an interface has an address. Interfaces built on it, such as
// VLANs and bonds, count as well.
func addressAbove(i *net.Interface, a netip.Addr) bool {
	all, err := interfacesWith(a)
	if err != nil {
		return true // nothing is known to be wrong
	}
	return slices.ContainsFunc(all, func(index int) bool {
		has, err := net.InterfaceByIndex(index)
		return err == nil && above(has.Name, i.Name, deepestStack)
	})
}

// deepestStack bounds the number of interfaces built on each other.
const deepestStack = 4

// above reports whether the interface name is base or is built on it.
func above(name, base string, depth int) bool {
	if name == base || depth == 0 {
		return name == base
	}
	lower, _ := filepath.Glob("/sys/class/net/" + name + "/lower_*") // the pattern is valid
	return slices.ContainsFunc(lower, func(link string) bool {
		_, next, _ := strings.Cut(filepath.Base(link), "_")
		return above(next, base, depth-1)
	})
}

// rxeInterface returns the network interface of an rxe device.
func rxeInterface(device string) (*net.Interface, error) {
	name, err := os.ReadFile("/sys/class/infiniband/" + device + "/parent")
	if err != nil {
		return nil, err
	}
	return net.InterfaceByName(strings.TrimSpace(string(name)))
}
