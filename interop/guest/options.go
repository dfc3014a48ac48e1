package guest

import "github.com/rdmad/rdmad/interop/guest/image"

// Options describe the machine to boot. The zero value suits most tests.
type Options struct {
	Kernel    image.Kernel // default the stock kernel of this machine's Debian
	MemoryMiB int          // default 2048 MiB
	CPUs      int          // default 2
	Forward   []int        // TCP ports of the guest to forward from the host, see Guest.HostPort
	Shares    []Share      // directories of the host, in addition to /host
	Shell     bool         // a shell on the serial console, connected to this process's terminal
	Capture   string       // file for all packets of the guest's network card (pcap)
	Append    []string     // more words for the kernel command line
	Disks     []string     // /dev/vda and following: raw files, or NBD addresses such as nbd+unix:///?socket=PATH
}

// Share is a directory of the host that the guest mounts through 9p.
type Share struct {
	Tag string // short and unique, letters only
	Dir string // on the host
	At  string // in the guest
}

const (
	defaultMemoryMiB = 2048
	defaultCPUs      = 2
	hostShareTag     = "host"
	hostShareDir     = "/host"
)

func (o Options) withDefaults(shareDir string) Options {
	if o.MemoryMiB == 0 {
		o.MemoryMiB = defaultMemoryMiB
	}
	if o.CPUs == 0 {
		o.CPUs = defaultCPUs
	}
	own := Share{Tag: hostShareTag, Dir: shareDir, At: hostShareDir}
	o.Shares = append([]Share{own}, o.Shares...)
	return o
}
