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

// rxe of Linux 6.1 loses the queue pair through which connection managers talk
// when one of their messages finds no way, because the interface is down or the
// address gone: rxe_requester takes that for an error of the queue pair, and the
// move to RTS by which ib_mad mends it (ib_mad_send_error) lets it send again, not
// receive. The device is deaf from then on, whoever uses it. So the end of a
// connection is told only when there is a way, and until then the identifier is
// kept, beyond its Close.

// hold says whether the connection's end can't be told now; the provider does so
// later.
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

// leave says whether the identifier, which is closed, is destroyed when its end
// is told.
func (id *connID) leave() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.left = id.held
	return id.held
}

// tell tells the end that was held.
func (id *connID) tell() {
	id.mu.Lock() // nobody destroys it
	command(func() C.int { return C.rdmad_disconnect(id.c) })
	id.held = false
	left := id.left
	id.mu.Unlock()
	if left {
		id.destroy()
	}
}

// pathOpen says whether the device can send to the peer, for all that can be
// known.
func (id *connID) pathOpen() bool {
	return !id.dev.is(vendorRXE) || pathOpen(id.dev.ctx.nameNow(), id.LocalAddr().Addr(), id.RemoteAddr().Addr())
}

// tellHeld tells those ends that may be told now.
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

// udpPort is RoCEv2's (InfiniBand specification annex A17.5).
const udpPort = 4791

// pathOpen says whether packets of an rxe device find their way: its interface
// is up, the address that they come from is the device's, and there is a route.
func pathOpen(device string, from, to netip.Addr) bool {
	i, err := rxeInterface(device)
	if err != nil || i.Flags&net.FlagUp == 0 || !addressAbove(i, from) {
		return false
	}
	// Connecting a UDP socket sends nothing and looks for the route.
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, udpPort)))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// addressAbove says whether an interface, or one built on it such as a VLAN's or
// a bond, has an address.
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

// deepestStack bounds how many interfaces are built on each other.
const deepestStack = 4

// above says whether an interface is another one or built on it.
func above(name, base string, depth int) bool {
	if name == base || depth == 0 {
		return name == base
	}
	lower, _ := filepath.Glob("/sys/class/net/" + name + "/lower_*") // the pattern is right
	return slices.ContainsFunc(lower, func(link string) bool {
		_, next, _ := strings.Cut(filepath.Base(link), "_")
		return above(next, base, depth-1)
	})
}

// rxeInterface is the network interface of an rxe device.
func rxeInterface(device string) (*net.Interface, error) {
	name, err := os.ReadFile("/sys/class/infiniband/" + device + "/parent")
	if err != nil {
		return nil, err
	}
	return net.InterfaceByName(strings.TrimSpace(string(name)))
}
