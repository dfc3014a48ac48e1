package interop

import (
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/interop/guest/image"
)

// knfsdPort is the port of the kernel server's NFS over TCP.
const knfsdPort = 2049

// TestGatewayKnfsd runs the kernel's server in one guest, a client in another,
// and an rdmad between them. It tests both directions: RDMA from the client and
// TCP to the server, which grants and recalls delegations, and TCP from the
// client and RDMA to the server.
func TestGatewayKnfsd(t *testing.T) { testGatewayKnfsd(t, image.Stock) }

func testGatewayKnfsd(t *testing.T, kernel image.Kernel) {
	gw := startKnfsdGateway(t, kernel)
	forward, connector := shortKnfsd, append([]part{{"large directory", testLargeDirectory}, {"direct", testDirect}}, shortKnfsd...)
	if *longFlag {
		forward, connector = matrix, matrix
	}
	t.Run("v3", gw.version3)
	t.Run("forward", func(t *testing.T) { gw.tryKnfsd(t, overRDMA, forward) })
	t.Run("connector", func(t *testing.T) { gw.tryKnfsd(t, overTCP, connector) })
}

// shortKnfsd is the matrix but for what takes long and TestGateway has as well.
var shortKnfsd = append([]part{
	{"names", testNames},
	{"sparse and truncate", testSparse},
	{"remount", testRemount},
}, quick...)

// version3 mounts by version 3, whose MOUNT does not pass through rdmad.
func (gw *gateway) version3(t *testing.T) {
	m := gw.mount(t, "3", "/mnt/knfsd3")
	m.do(t, "v3-", quick)
	m.checkStats(t)
	t.Run("rpcbind", gw.byRPCBind)
}

// byRPCBind mounts without the port of MOUNT, which the server's rpcbind names. The client is the server's own guest:
// others can't reach rpcbind's port.
func (gw *gateway) byRPCBind(t *testing.T) {
	script := "mount -t nfs -o vers=3,proto=rdma,port=" + gw.e.rdma + `,mounthost=10.0.2.15,nolock 10.0.2.2:/export /mnt
echo through rdmad >/mnt/by-rpcbind
umount /mnt
cat by-rpcbind
rm by-rpcbind`
	if got := gw.e.shell(t, script); got != "through rdmad\n" {
		t.Errorf("%q", got)
	}
}

// tryKnfsd does what ganesha has no part in as well.
func (gw *gateway) tryKnfsd(t *testing.T, via transport, parts []part) {
	gw.via = via
	m := gw.mount(t, "4.2", "/mnt/knfsd")
	m.do(t, string(via)+"-", parts)
	t.Run("locks", func(t *testing.T) { gw.locks(t, m) })
	t.Run("xattrs", func(t *testing.T) { testXattrs(t, m.work(t, "xattrs-"+string(via)), attributeSizes) })
	t.Run("allocate", func(t *testing.T) { testAllocate(t, m.work(t, "allocate-"+string(via))) })
	t.Run("copy", func(t *testing.T) {
		m.mustCall(t, func() { testCopy(t, m.work(t, "copy-"+string(via))) }, "COPY")
	})
	t.Run("recall", func(t *testing.T) { gw.recall(t, m) })
	m.checkStats(t)
}

// startKnfsdGateway boots both guests with a kernel and starts an rdmad between
// them.
func startKnfsdGateway(t testing.TB, kernel image.Kernel) *gateway {
	t.Helper()
	client := bootJudged(t, guest.Options{Kernel: kernel})
	client.UseRDMA(t, guest.SIWPlain)
	buildLocker(t, client)
	server := bootJudged(t, guest.Options{
		Kernel: kernel, MemoryMiB: 3072, Forward: []int{knfsdPort, mountTCPPort, nfsRDMAPort},
		Shares: []guest.Share{{Tag: "client", Dir: client.ShareDir, At: clientShare}},
	})
	server.UseRDMA(t, guest.SIWPlain)
	server.MakeDisk(t, "/export")
	server.ServeNFS(t)
	tcp, rdma := fmt.Sprintf("127.0.0.1:%d", server.HostPort(knfsdPort)), fmt.Sprintf("127.0.0.1:%d", server.HostPort(nfsRDMAPort))
	r := startRdmadAs(t, client.ShareDir, func(r *rdmad) string {
		return forwarding(tcp)(r) + fmt.Sprintf("connectors: [{name: out, listen: %q, provider: softiwarp, target: %q}]\n", r.tcp, rdma)
	})
	r.tcp = r.process.Address("connector")
	e := &exported{g: server, dir: "/export", shared: clientShare, rdma: portOf(r.rdma), tcp: portOf(r.tcp), mountd: fmt.Sprint(server.HostPort(mountTCPPort)), r: r}
	return &gateway{g: client, r: r, e: e, via: overRDMA}
}

// clientShare is where the server's guest has what the client's has as /host.
const clientShare = "/client"
