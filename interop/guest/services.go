package guest

import (
	_ "embed"
	"fmt"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// SIW selects one of the two builds of the kernel's soft-iWARP.
type SIW string

const (
	// SIWPlain is the kernel's unchanged siw. It connects without CRC32C, and
	// uses CRC32C if the peer asks for it.
	SIWPlain SIW = "siw"
	// SIWRequireCRC is siw with mpa_crc_required set. It asks for CRC32C, and
	// checks it in the peer's FPDUs.
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

// UseRDMA makes a soft-iWARP device siw0 on the guest's network card. It loads
// the modules for NFS over RDMA and the verbs programs. Call it once per guest:
// siw can't always be unloaded after its connections have ended.
func (g *Guest) UseRDMA(tb testing.TB, siw SIW) {
	tb.Helper()
	g.MustRun(tb, serviceTime, RDMAScript(siw))
}

// RDMAScript returns the script that UseRDMA runs.
func RDMAScript(siw SIW) string { return "siw=" + string(siw) + "\n" + rdmaScript }

// ServeNFS starts the kernel's NFS server in the guest. Call it after UseRDMA.
// The server exports /export, on tmpfs unless MakeDisk came first, by NFSv3 and
// NFSv4, on TCP port 2049 and RDMA port 20049, with MOUNT on TCP port 20048.
func (g *Guest) ServeNFS(tb testing.TB) {
	tb.Helper()
	g.MustRun(tb, serviceTime, knfsdScript)
}

// GaneshaPort is the TCP port of the server of [Guest.ServeGanesha] in the
// guest.
const GaneshaPort = 2052

// ServeGanesha starts nfs-ganesha in the guest. Call it after UseRDMA. The
// server exports /ganesha, a disk, by NFSv4 only, on TCP port GaneshaPort. If
// the program is killed, it is started again. Its process ID is in
// /run/ganesha/pid.
func (g *Guest) ServeGanesha(tb testing.TB) {
	tb.Helper()
	g.MakeDisk(tb, "/ganesha")
	g.MustRun(tb, serviceTime, fmt.Sprintf("port=%d\n%s", GaneshaPort, ganeshaScript))
}

// MakeDisk mounts a new ext4 file system in memory on a directory, unless
// something is mounted there. Unlike tmpfs, it has user extended attributes.
func (g *Guest) MakeDisk(tb testing.TB, dir string) {
	tb.Helper()
	g.MustRun(tb, serviceTime, "disk="+dir+"\n"+diskScript)
}
