//go:build rdmacore && cgo && rdmadevice

package interop

import (
	"context"
	"flag"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Tests with the tag rdmadevice run in the guest. Other tests of this package
// start them. They use our requester over provider rdmacore.
var (
	deviceFlag = flag.String("rdmacore.device", "", "device to test, the first one when empty")
	_          = flag.String("rdmacore.address", "", "IP address of the device")
	nfsFlag    = flag.String("device.nfs", "", "address of the NFS server over RDMA")
	mountdFlag = flag.String("device.mountd", "", "address of its MOUNT service on TCP")
	exportFlag = flag.String("device.export", "", "what to mount")
	exportIn   = flag.String("device.dir", "", "directory where this machine sees the export")
)

// severedConn is the number of connections that testSevered ends.
const severedConn = 8

func newRdmacore(t *testing.T) rdmacm.Provider {
	t.Helper()
	p, err := rdmacore.New(rdmacore.Config{Tuning: tuning.Settings{Device: *deviceFlag}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { verbstest.CloseProvider(t, p) })
	return p
}

// deviceServer is the server that the flags name.
func deviceServer(t *testing.T) *kernelServer {
	return &kernelServer{address: *nfsFlag, root: mountExport(t, *mountdFlag, *exportFlag), view: func(t testing.TB, script string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), serverTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-ec", script)
		cmd.Dir = *exportIn
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return string(out)
	}}
}

// TestDeviceKnfsd does what TestKnfsd does over soft-iWARP, except for tests
// that cut a TCP connection.
func TestDeviceKnfsd(t *testing.T) {
	s, p := deviceServer(t), newRdmacore(t)
	t.Run("null", func(t *testing.T) { testNull(t, s, p) })
	t.Run("version 2 refused", func(t *testing.T) { testVersionRefused(t, s, p) })
	testDeviceV3(t, s, p)
	t.Run("nfs 4.1", func(t *testing.T) { testV41(t, s, p, rpcrdma.DefaultSettings()) })
	t.Run("nfs 4.1 in chunks", func(t *testing.T) { testV41(t, s, p, inChunks()) })
	t.Run("64 calls", func(t *testing.T) {
		ctx, cancel := limit(t, knfsdTime)
		defer cancel()
		s.mixedCalls(ctx, t, s.dial(ctx, t, p, s.address, rpcrdma.DefaultSettings()))
	})
	t.Run("severed", func(t *testing.T) { testSevered(t, s, p) })
}

// TestDeviceNFS runs a session with an NFSv3 server.
func TestDeviceNFS(t *testing.T) { testDeviceV3(t, deviceServer(t), newRdmacore(t)) }

func testDeviceV3(t *testing.T, s *kernelServer, p rdmacm.Provider) {
	t.Run("nfs 3", func(t *testing.T) { testV3(t, s, p, rpcrdma.DefaultSettings()) })
	t.Run("nfs 3 in chunks", func(t *testing.T) { testV3(t, s, p, inChunks()) })
}

// testSevered ends the connection each time after it posted a WRITE whose data
// the server has not read yet. The client connects again and repeats the call.
// Its caller does not notice.
func testSevered(t *testing.T, s *kernelServer, p rdmacm.Provider) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	severing := &severingProvider{Provider: p}
	c := s.dialWith(ctx, t, severing, s.address, rpcrdma.DialConfig{Reconnect: &rpcrdma.Reconnect{}})
	defer severing.ends.Wait()
	v := &v3{nfsClient: c, t: t, ctx: ctx, dir: nfsv3.NfsFh3{Data: s.root}}
	fh := v.create("severed")
	for i := range severedConn {
		data := noise(1<<20, uint64(i))
		severing.armed.Store(true)
		v.write(fh, data)
		severing.ends.Wait() // or two ends may meet on one connection
		if got := v.read(fh, 0, len(data)); sha(got.Data) != sha(data) {
			t.Errorf("write %d, read back: %s", i, firstDifference(data, got.Data))
		}
	}
	if n, err := c.Info().Connects, c.Err(); n != uint64(1+severedConn) || err != nil {
		t.Errorf("the client connected %d times and ended with %v, want %d connections and no end", n, err, 1+severedConn)
	}
}

// severingProvider disconnects after the next post if it is armed.
type severingProvider struct {
	rdmacm.Provider
	armed atomic.Bool
	ends  sync.WaitGroup
}

func (p *severingProvider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	id, err := p.Provider.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	return severingID{id, p}, nil
}

type severingID struct {
	rdmacm.ID
	p *severingProvider
}

func (id severingID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	qp, err := id.ID.CreateQP(pd, attr)
	if err != nil {
		return nil, err
	}
	return severingQP{qp, id}, nil
}

type severingQP struct {
	verbs.QP
	id severingID
}

func (qp severingQP) PostSend(wrs []verbs.SendWR) (int, error) {
	n, err := qp.QP.PostSend(wrs)
	for i := range wrs {
		if wrs[i].Op == verbs.OpSend && qp.id.p.armed.CompareAndSwap(true, false) {
			// An error is the end of the connection as well.
			qp.id.p.ends.Go(func() { _ = qp.id.Disconnect() })
		}
	}
	return n, err
}
