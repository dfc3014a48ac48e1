package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// adapter is one of the kernel's software adapters.
type adapter struct {
	name    string // of the device
	windows bool   // memory windows of type 2B
	bring   func(testing.TB, *guest.Guest)
}

var adapters = []adapter{
	{"siw0", false, func(t testing.TB, g *guest.Guest) { g.UseRDMA(t, guest.SIWPlain) }},
	{"rxe0", true, func(t testing.TB, g *guest.Guest) { g.MustRun(t, adapterTime, rxeScript) }},
}

// kind returns the adapter's kind for "rdma link add".
func (a adapter) kind() string { return strings.TrimSuffix(a.name, "0") }

// add returns the command that makes a device of the kind on a network
// interface.
func (a adapter) add(device, network string) string {
	return fmt.Sprintf("rdma link add %s type %s netdev %s", device, a.kind(), network)
}

// guestAddress is the address of the guest's network card, and so of its
// adapters.
const guestAddress = "10.0.2.15"

// adapterTime is enough to load modules under emulation.
const adapterTime = 5 * time.Minute

// rxeScript is for RoCEv2 what rdma.sh of package guest is for iWARP.
const rxeScript = `set -e
/sbin/modprobe -a crc32c_generic crc32_generic rdma_rxe ib_uverbs rdma_ucm sunrpc rpcrdma nfsv3
rdma link add rxe0 type rxe netdev eth0
mkdir -p /run/rpc_pipefs /var/lib/nfs/sm
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
`

// rdmacoreLimits is what a process with many queues and regions needs, more
// than the guest gives by itself.
const rdmacoreLimits = "ulimit -n 65536; ulimit -l unlimited\n"

// buildRdmacore builds with cgo and the tag rdmacore into a directory that the
// guest sees: same architecture, same libraries.
func buildRdmacore(t testing.TB, dir, name string, args ...string) {
	t.Helper()
	defer guest.Busy()()
	cmd := exec.Command("go", append(args[:1:1], append([]string{"-o", filepath.Join(dir, name)}, args[1:]...)...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// nothingLeft checks that no process holds anything of the adapter's any more:
// of what rdma resource shows only the kernel's own may be there. The kernel gets
// half a minute at least for what it takes away in the background.
func nothingLeft(t testing.TB, g *guest.Guest) {
	t.Helper()
	const script = `for i in $(seq 150); do
	for what in qp cm_id mr cq pd; do rdma resource show $what | grep -E ' pid [0-9]+ ' || true; done >/tmp/left
	[ -s /tmp/left ] || break
	sleep 0.2
done
cat /tmp/left`
	if left := strings.TrimSpace(g.MustRun(t, adapterTime, script)); left != "" {
		t.Errorf("resources left:\n%s", left)
	}
}
