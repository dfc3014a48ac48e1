package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	mountv3 "github.com/buildbarn/go-xdr/pkg/protocols/mount"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/interop/guest/image"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

const (
	nfsRDMAPort  = 20049 // of the guest's server
	mountTCPPort = 20048
	// knfsdTime bounds each of the tests below.
	knfsdTime = 5 * time.Minute
)

// kernelServer is the kernel's NFS server in a guest, reached from the host; or
// another server that our requester is to work with.
type kernelServer struct {
	view    func(t testing.TB, script string) string // runs a script in the export, where the server sees it
	slow    func(t testing.TB, connect func())       // connects, see slowly; nil for a server that needs no care
	address string                                   // of NFS over RDMA
	tcp     string                                   // of NFS over TCP
	mountd  string                                   // of MOUNT over TCP
	root    []byte                                   // version 3 handle of the export
	offers  *offers
}

// TestKnfsd lets our requester work with the kernel's NFS server over
// soft-iWARP. What goes over the wire is recorded, by us and by the machine, and
// compared in the end.
func TestKnfsd(t *testing.T) { testKnfsd(t, image.Stock) }

func testKnfsd(t *testing.T, kernel image.Kernel) {
	capture := filepath.Join(t.TempDir(), "guest.pcap")
	// testVersionProbe sends versions that there are not.
	g := bootJudged(t, guest.Options{Kernel: kernel, Forward: []int{nfsRDMAPort, knfsdPort, mountTCPPort}, Capture: capture}, "v2.header", "version.range")
	g.UseRDMA(t, guest.SIWPlain)
	serveLargest(t, g)
	mountd := fmt.Sprintf("127.0.0.1:%d", g.HostPort(mountTCPPort))
	s := &kernelServer{
		mountd: mountd, view: knfsd{g}.shell, slow: delayed(g), address: fmt.Sprintf("127.0.0.1:%d", g.HostPort(nfsRDMAPort)),
		tcp: fmt.Sprintf("127.0.0.1:%d", g.HostPort(knfsdPort)), root: mountExport(t, mountd, "/export"), offers: newOffers(),
	}
	bare := newSoftiwarp(t, softiwarp.Config{})
	plain, crc := s.record(bare), s.record(newSoftiwarp(t, softiwarp.Config{CRC: true}))

	t.Run("null", func(t *testing.T) { testNull(t, s, plain) })
	t.Run("version 2 probe", func(t *testing.T) { testVersionProbe(t, s, bare) })
	t.Run("nfs 3", func(t *testing.T) { testV3(t, s, plain, rpcrdma.DefaultSettings()) })
	t.Run("nfs 3 in chunks", func(t *testing.T) { testV3(t, s, crc, inChunks()) })
	t.Run("nfs 4.1", func(t *testing.T) { testV41(t, s, crc, rpcrdma.DefaultSettings()) })
	t.Run("nfs 4.1 in chunks", func(t *testing.T) { testV41(t, s, plain, inChunks()) })
	t.Run("64 calls", func(t *testing.T) { testManyCalls(t, s, plain) })
	t.Run("cut", func(t *testing.T) { testCut(t, s, crc) })
	t.Run("capture", func(t *testing.T) { checkCapture(t, capture, s.offers) })
	t.Run("version 2 refused", func(t *testing.T) { testVersionRefused(t, s, bare) })
	t.Run("nfs 3 after version 2", func(t *testing.T) { testV3(t, s, bare, offeringAll()) })
	t.Run("strict", func(t *testing.T) { s.strict(t, g.ShareDir, bare) })
	t.Run("rdmactl", func(t *testing.T) { s.slowly(t, func() { testRdmactl(t, s) }) })
	t.Run("connector with version 2", func(t *testing.T) { s.slowly(t, func() { testConnectorVersion(t, s) }) })
}

// inChunks are settings under which all data, and every message of more than a
// kilobyte, goes by RDMA Read or Write.
func inChunks() rpcrdma.Settings {
	set := rpcrdma.DefaultSettings()
	set.DDPMinChunk, set.InlineSendMax, set.InlineReceiveSize = 1, 1024, 1024
	return set
}

// serveLargest starts the server with reads and writes of up to 1 MiB, which
// it would give a machine with more memory by itself.
func serveLargest(t testing.TB, g *guest.Guest) {
	t.Helper()
	g.MustRun(t, knfsdTime, `/sbin/modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
echo 1048576 >/proc/fs/nfsd/max_block_size
umount /proc/fs/nfsd`)
	g.ServeNFS(t)
}

// mountExport asks a mountd over TCP for the handle of an export.
func mountExport(t *testing.T, address, export string) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(knfsdTime)); err != nil {
		t.Fatal(err)
	}
	msg := oncrpc.AppendCall(nil, &oncrpc.Call{
		XID: 1, Program: mountv3.MOUNT_PROGRAM_PROGRAM_NUMBER, Version: 3, Procedure: 1, Cred: rootCred(),
	})
	msg = xdr.AppendString(msg, export)
	if _, err := conn.Write(append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...)); err != nil {
		t.Fatal(err)
	}
	records := oncrpc.NewRecordReader(bufio.NewReader(conn), 4096)
	if _, err := records.Next(); err != nil {
		t.Fatal(err)
	}
	reply, err := records.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	var h oncrpc.ReplyHeader
	n, err := oncrpc.DecodeReply(reply, &h)
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := mountv3.ReadMountres3(bytes.NewReader(reply[n:]))
	if err != nil {
		t.Fatal(err)
	}
	return as[*mountv3.Mountres3_MNT3_OK](t, res).Mountinfo.Fhandle
}

// rootCred returns the credential of root.
func rootCred() oncrpc.Auth {
	sys := oncrpc.AuthSys{MachineName: []byte("host")}
	return oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: sys.Append(nil)}
}

// dial connects to the server, or to a relay before it. The client is closed
// when the test ends.
func (s *kernelServer) dial(ctx context.Context, t *testing.T, p rdmacm.Provider, address string, set rpcrdma.Settings) *nfsClient {
	t.Helper()
	return s.dialWith(ctx, t, p, address, rpcrdma.DialConfig{Settings: &set})
}

func (s *kernelServer) dialWith(ctx context.Context, t *testing.T, p rdmacm.Provider, address string, cfg rpcrdma.DialConfig) *nfsClient {
	t.Helper()
	var c *rpcrdma.Client
	s.slowly(t, func() {
		var err error
		if c, err = rpcrdma.Dial(ctx, p, address, cfg); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &nfsClient{Client: c, cred: rootCred()}
}

// slowly connects with the precautions that the server needs.
func (s *kernelServer) slowly(t testing.TB, connect func()) {
	t.Helper()
	if s.slow == nil {
		connect()
		return
	}
	s.slow(t, connect)
}

// delayed connects to siw with a delay on what the guest sends, because siw_accept
// of 6.1 looks at the socket only for what comes after it has sent the MPA reply and
// changed the socket's callbacks: an FPDU that comes between the two stays unread
// until the next one. The delay is many times what a busy host may take from the
// guest's processor there.
func delayed(g *guest.Guest) func(t testing.TB, connect func()) {
	return func(t testing.TB, connect func()) {
		t.Helper()
		g.MustRun(t, knfsdTime, "/sbin/modprobe sch_netem && /sbin/tc qdisc replace dev eth0 root netem delay 60ms")
		defer g.MustRun(t, knfsdTime, "/sbin/tc qdisc del dev eth0 root")
		connect()
	}
}

// testNull calls the NULL procedure of programs that the server has, and of
// some that it does not have.
func testNull(t *testing.T, s *kernelServer, p rdmacm.Provider) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	c := s.dial(ctx, t, p, s.address, rpcrdma.DefaultSettings())
	info := c.Info()
	if info.InlineSend != 4096 || info.InlineReceive != 4096 || info.RemoteInvalidation {
		t.Errorf("the server negotiated %+v, want 4096 bytes each way", info)
	}
	for version := range uint32(6) {
		_, err := c.do(ctx, nfsCall{version: version, proc: 0})
		switch refused, isRefusal := errors.AsType[*oncrpc.AcceptError](err); {
		case version == 3 || version == 4:
			if err != nil {
				t.Errorf("NULL of version %d: %v", version, err)
			}
		case !isRefusal || refused.Stat != oncrpc.ProgMismatch || refused.Low != 3 || refused.High != 4:
			t.Errorf("NULL of version %d: %v, want PROG_MISMATCH 3 to 4", version, err)
		}
	}
	if got := c.Info().CreditsGranted; got != 64 {
		t.Errorf("%d credits granted, want 64", got)
	}
}
