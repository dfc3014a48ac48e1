package guest

import (
	_ "embed"
	"fmt"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// SIW chooses one of the two builds of the kernel's soft-iWARP.
type SIW string

const (
	// SIWPlain is the kernel's siw as it is: it connects without CRC32C
	// and uses it when the peer asks for it.
	SIWPlain SIW = "siw"
	// SIWRequireCRC is siw with its constant mpa_crc_required set: it asks
	// for CRC32C, and checks it in what the peer sends.
	SIWRequireCRC SIW = "/" + image.SIWRequireCRC
)

//go:embed scripts/rdma.sh
var rdmaScript string

//go:embed scripts/knfsd.sh
var knfsdScript string

//go:embed scripts/disk.sh
var diskScript string

//go:embed scripts/ganesha.sh
var ganeshaScript string

// serviceTime is enough to load modules under emulation on a busy machine.
const serviceTime = 5 * time.Minute

// UseRDMA makes a soft-iWARP device siw0 on the guest's network card and
// loads what NFS over RDMA and the verbs programs need. Once for a guest:
// siw is not always free to be unloaded when its connections have ended.
func (g *Guest) UseRDMA(tb testing.TB, siw SIW) {
	tb.Helper()
	g.MustRun(tb, serviceTime, RDMAScript(siw))
}

// RDMAScript is the script that UseRDMA runs.
func RDMAScript(siw SIW) string { return "siw=" + string(siw) + "\n" + rdmaScript }

// ServeNFS starts the kernel's NFS server in the guest, after UseRDMA: /export, on
// tmpfs unless MakeDisk was there first, versions 3 and 4, on TCP port 2049 and
// RDMA port 20049, MOUNT on TCP 20048.
func (g *Guest) ServeNFS(tb testing.TB) {
	tb.Helper()
	g.MustRun(tb, serviceTime, knfsdScript)
}

// GaneshaPort is the TCP port of [Guest.ServeGanesha]'s server in the guest.
const GaneshaPort = 2052

// ServeGanesha starts nfs-ganesha in the guest, after UseRDMA: /ganesha, a disk,
// by NFSv4 alone, on TCP port GaneshaPort. When the program was killed, it starts it
// again. Its process id is in /run/ganesha/pid.
func (g *Guest) ServeGanesha(tb testing.TB) {
	tb.Helper()
	g.MakeDisk(tb, "/ganesha")
	g.MustRun(tb, serviceTime, fmt.Sprintf("port=%d\n%s", GaneshaPort, ganeshaScript))
}

// MakeDisk mounts a new ext4 file system in memory on a directory, unless
// something is mounted there. It has user extended attributes, as tmpfs has not.
func (g *Guest) MakeDisk(tb testing.TB, dir string) {
	tb.Helper()
	g.MustRun(tb, serviceTime, "disk="+dir+"\n"+diskScript)
}
