package interop

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/interop/guest/image"
)

// gateway is an rdmad that stands before an NFSv4 server, and a client of it.
type gateway struct {
	g   *guest.Guest // of the client
	r   *rdmad       // nil when the client goes straight to the server
	e   *exported
	via transport
}

// longFlag has all of what is otherwise done once, as it takes long and is the
// same by every version and both ways, done by all.
var longFlag = flag.Bool("long", false, "the whole matrix for every version, in every direction and on every provider, RPC-over-RDMA between every pair of speakers, the sanitizer on every adapter, the package of provider rdmacore")

// short is quick and what has several calls in flight.
var short = append(slices.Clone(quick), []part{
	{"direct", testDirect},
	{"fio 4k", testFio4K},
}...)

// quick is the part of the matrix that takes seconds.
var quick = []part{
	{"sizes", testSmallSizes},
	{"links", testLinks},
	{"rename and remove", testRenameRemove},
	{"attributes", testAttributes},
	{"append and overwrite", testAppend},
}

// gatewayParts is what the first version goes through, and all of them the whole matrix with
// -long: the unpacked tree is left to TestNFS.
var gatewayParts = append([]part{
	{"names", testNames},
	{"sparse and truncate", testSparse},
	{"large directory", testLargeDirectory},
	{"fio 1m", testFio1M},
	{"remount", testRemount},
}, short...)

// TestGateway lets the kernel's NFSv4 client work over RDMA on rdmad, which
// forwards its calls to nfs-ganesha over TCP. With -server ganesha the client
// works directly on ganesha over TCP: a failure there is a fault of the test.
func TestGateway(t *testing.T) {
	gw := startGateway(t, image.Stock)
	idle := gw.leaveIdle(t)
	for _, version := range []string{"4.2", "4.1", "4.0"} {
		parts := quick
		switch {
		case *longFlag:
			parts = matrix
		case version == "4.2":
			parts = gatewayParts
		}
		t.Run(version, func(t *testing.T) { gw.testVersion(t, version, parts) })
	}
	t.Run("strict", gw.strict)
	t.Run("ceph", gw.ceph)
	t.Run("idle", func(t *testing.T) { gw.endIdle(t, idle) })
	for _, version := range []string{"4.2", "4.1", "4.0"} {
		if version == "4.2" || *longFlag { // to the forwarder, the end of the upstream is the same for all
			t.Run("crash "+version, func(t *testing.T) { gw.crash(t, version) })
		}
	}
}

// shortUnlessLong returns the parts that each version runs.
func shortUnlessLong() []part {
	if *longFlag {
		return matrix
	}
	return short
}

// testVersion runs parts on a mount of a version, and the parts that only
// version 4 has.
func (gw *gateway) testVersion(t *testing.T, version string, parts []part) {
	m := gw.mount(t, version, "/mnt/gateway-"+version)
	m.do(t, version+"-", parts)
	t.Run("locks", func(t *testing.T) { gw.locks(t, m) })
	if version == "4.2" {
		t.Run("allocate", func(t *testing.T) { testAllocate(t, m.work(t, "allocate")) })
		t.Run("copy", func(t *testing.T) { testCopy(t, m.work(t, "copy")) })
	}
	m.checkStats(t)
}

// startGateway starts ganesha in a guest with a kernel, and an rdmad before it.
func startGateway(t testing.TB, kernel image.Kernel) *gateway {
	t.Helper()
	g := bootJudged(t, guest.Options{Kernel: kernel, MemoryMiB: 3072, Forward: []int{guest.GaneshaPort}}, killed)
	g.UseRDMA(t, guest.SIWPlain)
	g.ServeGanesha(t)
	buildLocker(t, g)
	t.Cleanup(func() {
		if crashes := g.MustRun(t, serverTime, "cat /run/ganesha/crashes 2>/dev/null || true"); crashes != "" {
			t.Logf("ganesha broke by itself, and was started again, when the guest was up for:\n%s", crashes)
		}
		if t.Failed() {
			t.Logf("ganesha's log:\n%s", g.MustRun(t, serverTime, "cat /run/ganesha/log.before /run/ganesha/log 2>/dev/null | grep -v DBUS"))
		}
	})
	e := &exported{g: g, dir: "/ganesha", shared: "/host", tcp: fmt.Sprint(g.HostPort(guest.GaneshaPort))}
	if *serverFlag == "ganesha" {
		return &gateway{g: g, e: e, via: overTCP}
	}
	r := startRdmadAs(t, g.ShareDir, forwarding("127.0.0.1:"+e.tcp))
	e.rdma, e.r = portOf(r.rdma), r
	return &gateway{g: g, r: r, e: e, via: overRDMA}
}

// mount mounts a version on a directory in the guest, until the test has ended.
func (gw *gateway) mount(t testing.TB, version, dir string) *mount {
	t.Helper()
	return newMountAt(t, gw.g, gw.e.at(version), gw.via, dir)
}

// version returns the mount's NFS version.
func (m *mount) version() string { return m.server.(*exported).version }
