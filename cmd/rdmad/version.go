package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/verbs/inventory"
)

// versionText returns the version, a line for each provider, and two lines for each device.
func versionText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rdmad %s\n", versionLine())
	fmt.Fprintf(&b, "providers: %s\n", strings.Join(providers.Names(), ", "))
	for _, p := range providers.Inventory() {
		if !p.BuiltIn {
			fmt.Fprintf(&b, "not in this build: %s (%s)\n", p.Name, p.Note)
		}
	}
	for _, d := range providers.Devices() {
		writeDevice(&b, &d)
	}
	return b.String()
}

// versionLine returns what --version prints: the version, that of Go, and the platform.
func versionLine() string {
	return fmt.Sprintf("%s (%s %s/%s)", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func writeDevice(b *strings.Builder, d *inventory.Device) {
	fmt.Fprintf(b, "device %s: %s", d.Name, d.Transport)
	for _, p := range d.Ports {
		fmt.Fprintf(b, ", port %d %s %s %s", p.Number, p.State, p.Rate, p.Link)
		for _, a := range p.Addresses {
			fmt.Fprintf(b, " %s", a)
		}
	}
	b.WriteByte('\n')
	switch l := d.Limits; {
	case d.Problem != "":
		fmt.Fprintf(b, "  %s\n", d.Problem)
	case l != nil:
		fmt.Fprintf(b, "  memory windows 2B %s, send with invalidate %s, RNR retry %s, open RDMA Read sinks %s; at most %d QP, %d CQ, %d MR, %d MW, %d SRQ, %d WR a queue, %d SGE, %d/%d RDMA Reads in/out\n",
			yesNo(l.MemWindowType2B), yesNo(l.SendInvalidate), yesNo(l.ReceiverNotReady), yesNo(l.ReadSinkRemoteWrite),
			l.MaxQP, l.MaxCQ, l.MaxMR, l.MaxMW, l.MaxSRQ, l.MaxQPWR, l.MaxSGE, l.MaxReadsIn, l.MaxReadsOut)
	}
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}
