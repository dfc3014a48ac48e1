// Package inventory lists the RDMA devices of a machine, as the kernel shows them in its
// sysfs, whether or not rdmad can use them.
package inventory

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ClassDir is the directory in which the kernel shows its devices.
const ClassDir = "/sys/class/infiniband"

// Provider is a verbs provider, in this build or not.
type Provider struct {
	Name    string
	BuiltIn bool
	Note    string // how to get it, when it is not built in
}

// Device is an RDMA device.
type Device struct {
	Name      string
	Transport string // iWARP, RoCE, InfiniBand; "?" when the kernel does not say
	Firmware  string
	Ports     []Port
	// Provider is the one of this build that can use the device, "" when there
	// is none.
	Provider string
	// Limits are known where there is a provider; else nil.
	Limits *Limits
	// Problem is why the provider can't use the device.
	Problem string
}

// Port is a port of a device.
type Port struct {
	Number int
	State  string // ACTIVE, DOWN, …
	Rate   string // "100 Gb/sec (4X EDR)"
	Link   string // link layer: Ethernet, InfiniBand
	// Addresses are the IP addresses among its GIDs, on RoCE.
	Addresses []netip.Addr
}

// Limits describe what a device can do (struct ibv_device_attr), as far as rdmad needs it.
type Limits struct {
	MemWindowType2B  bool // type 2B memory windows, which peers may invalidate
	SendInvalidate   bool // Send With Invalidate
	ReceiverNotReady bool // a Send without a Receive is tried again
	// ReadSinkRemoteWrite: an RDMA Read tells the peer the key of its sink, and
	// lets it write there.
	ReadSinkRemoteWrite bool

	MaxQP, MaxCQ, MaxMR, MaxMW, MaxPD, MaxSRQ int
	MaxQPWR, MaxSGE, MaxCQE                   int
	MaxMRSize                                 uint64 // bytes
	MaxReadsIn, MaxReadsOut                   int    // RDMA Reads at once on a queue pair (IRD, ORD)
}

// Devices returns the machine's devices.
func Devices() []Device { return devicesIn(ClassDir) }

func devicesIn(class string) (all []Device) {
	entries, _ := os.ReadDir(class) // none without the kernel's RDMA
	for _, e := range entries {
		dir := filepath.Join(class, e.Name())
		d := Device{Name: e.Name(), Firmware: attribute(dir, "fw_ver"), Ports: portsIn(dir)}
		d.Transport = transport(attribute(dir, "node_type"), d.Ports)
		if d.Transport == "RoCE" {
			for i := range d.Ports {
				d.Ports[i].Addresses = addressesIn(filepath.Join(dir, "ports", strconv.Itoa(d.Ports[i].Number), "gids"))
			}
		}
		all = append(all, d)
	}
	return all
}

func portsIn(device string) (all []Port) {
	entries, _ := os.ReadDir(filepath.Join(device, "ports"))
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(device, "ports", e.Name())
		all = append(all, Port{
			Number: n,
			State:  afterColon(attribute(dir, "state")),
			Rate:   attribute(dir, "rate"),
			Link:   attribute(dir, "link_layer"),
		})
	}
	slices.SortFunc(all, func(a, b Port) int { return a.Number - b.Number })
	return all
}

// transport returns what a device speaks from its node type ("4: RNIC", "1: CA").
func transport(node string, ports []Port) string {
	switch afterColon(node) {
	case "RNIC":
		return "iWARP"
	case "CA":
		if len(ports) > 0 && ports[0].Link == "Ethernet" {
			return "RoCE"
		}
		return "InfiniBand"
	}
	return "?"
}

// addressesIn returns the IP addresses in a table of GIDs, which has every one once
// for each version of RoCE. Others are made from hardware addresses.
func addressesIn(gids string) (all []netip.Addr) {
	entries, _ := os.ReadDir(gids)
	for _, e := range entries {
		a, err := netip.ParseAddr(attribute(gids, e.Name()))
		if err != nil || a.IsUnspecified() || a.IsLinkLocalUnicast() || !a.Is4In6() && !a.IsGlobalUnicast() {
			continue
		}
		if a = a.Unmap(); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// PortState returns the state of one port: ACTIVE, DOWN, …. It fails if the device is gone,
// or if the process may open no more files.
func PortState(class, device string, number int) (string, error) {
	text, err := os.ReadFile(filepath.Join(class, device, "ports", strconv.Itoa(number), "state"))
	return afterColon(strings.TrimSpace(string(text))), err
}

// attribute is a file of one line; "?" when it can't be read.
func attribute(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(text))
}

// afterColon takes the number off "4: ACTIVE".
func afterColon(s string) string {
	if _, word, ok := strings.Cut(s, ": "); ok {
		return word
	}
	return s
}
