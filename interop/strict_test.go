package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// strictFile is what the strict client reads and writes, with what it expects
// to find there.
const (
	strictFile = "strict"
	strictSize = 3 << 20
)

// writeStrict puts the file into a directory of this machine.
func writeStrict(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, strictFile), nfstest.Data(0, strictSize), 0o666); err != nil {
		t.Fatal(err)
	}
}

// testStrict uses the limits that a server of NFSv4.1 announces to the byte: those
// that ganesha and the kernel's server both keep.
func testStrict(t *testing.T, carrier nfstest.Carrier) *nfstest.Client {
	c := &nfstest.Client{T: t, Carrier: carrier, File: []nfsv4.NfsArgop4{
		&nfsv4.NfsArgop4_OP_PUTROOTFH{}, &nfsv4.NfsArgop4_OP_LOOKUP{Oplookup: nfsv4.Lookup4args{Objname: strictFile}},
	}}
	c.Open(t.Name())
	t.Logf("fore channel %+v", c.Fore)
	c.MaxData()
	c.AllSlots()
	return c
}

// strict has the limits of ganesha, which are larger than what rdmad carries,
// used through forward, and through a connector before that. Ganesha itself
// refuses a response of exactly ca_maxresponsesize, and COMPOUNDs of as many
// operations as it grants.
func (gw *gateway) strict(t *testing.T) {
	writeStrict(t, gw.g.ShareDir)
	gw.e.shell(t, "cp /host/"+strictFile+" . && chmod 666 "+strictFile)
	t.Run("forward", func(t *testing.T) {
		c, err := rpcrdma.Dial(t.Context(), newSoftiwarp(t, softiwarp.Config{}), gw.r.rdma, rpcrdma.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		strict := testStrict(t, nfstest.RDMA{Client: c, Auth: rootCred()})
		strict.SmallFirst()
		strict.SeveralWrites()
		strict.MaxRequest()
	})
	t.Run("connector", func(t *testing.T) {
		var added struct {
			Connector struct{ Address string }
		}
		gw.r.ctl(t, &added, "connectors", "add", "strict", "--provider", "softiwarp", "--listen", "127.0.0.1:0", "--target", gw.r.rdma)
		c, err := rpctcp.Dial(t.Context(), added.Connector.Address, rpctcp.ClientConfig{Cred: rootCred(), MaxRecord: 4 << 20, MaxCalls: 64})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		strict := testStrict(t, nfstest.TCP{Client: c, Auth: rootCred()})
		strict.SmallFirst()
		strict.SeveralWrites()
		strict.MaxRequest()
	})
}

// strict uses the limits of the kernel's server directly, over RDMA and, for
// comparison, over TCP. The server has the same faults over both: with several READs
// in a COMPOUND (LatePages), and with several WRITEs, where data that begins inside a
// page of the request is written wrongly. strict asks for the largest response over
// RDMA only: over TCP, with this fault, the two READs that fill it need more pages
// than the server has.
func (s *kernelServer) strict(t *testing.T, share string, p rdmacm.Provider) {
	writeStrict(t, share)
	late := s.latePages(t)
	reads := func(t *testing.T, carrier nfstest.Carrier) *nfstest.Client {
		s.view(t, "cp /host/"+strictFile+" .")
		c := testStrict(t, carrier)
		c.LatePages = late
		c.MaxOperations()
		c.SmallFirst()
		c.WholePages()
		return c
	}
	writes := func(t *testing.T, c *nfstest.Client) (file string) {
		c.SeveralWrites()
		c.MaxRequest()
		return s.view(t, "sha256sum "+strictFile)
	}
	var overRDMA, overTCP string
	t.Run("RDMA", func(t *testing.T) {
		client := s.dial(t.Context(), t, p, s.address, rpcrdma.DefaultSettings())
		c := reads(t, nfstest.RDMA{Client: client.Client, Auth: rootCred()})
		c.MaxResponse()
		overRDMA = writes(t, c)
	})
	t.Run("TCP", func(t *testing.T) {
		client, err := rpctcp.Dial(t.Context(), s.tcp, rpctcp.ClientConfig{Cred: rootCred(), MaxRecord: 4 << 20, MaxCalls: 64})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		overTCP = writes(t, reads(t, nfstest.TCP{Client: client, Auth: rootCred()}))
	})
	same(t, "the file written over RDMA, compared with TCP", overRDMA, overTCP)
}

// latePages reports whether the server is Linux 6.5 or later, whose
// nfsd_iter_read has the fault.
func (s *kernelServer) latePages(t *testing.T) bool {
	t.Helper()
	var major, minor int
	if _, err := fmt.Sscanf(s.view(t, "uname -r"), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major > 6 || major == 6 && minor >= 5
}
