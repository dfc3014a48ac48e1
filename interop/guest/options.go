package guest

import "github.com/rdmad/rdmad/interop/guest/image"

// Options say what machine is booted. The zero value is good for most tests.
type Options struct {
	Kernel    image.Kernel // default the stock kernel of this machine's Debian
	MemoryMiB int          // default 2048
	CPUs      int          // default 2
	Forward   []int        // TCP ports of the guest that the host reaches, see Guest.HostPort
	Shares    []Share      // directories of the host, beside /host
	Shell     bool         // a shell on the serial console, joined to this process's terminal
	Capture   string       // file that gets all packets of the guest's network card (pcap)
	Append    []string     // more words for the kernel's command line
	Disks     []string     // /dev/vda and on: raw files, or NBD addresses such as nbd+unix:///?socket=PATH
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
