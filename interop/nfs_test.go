package interop

import (
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// part is a part of what a client does, in a directory of its own.
type part struct {
	name string
	test func(*testing.T, *work)
}

// matrix is the work of the kernel's client on every transport.
var matrix = []part{
	{"sizes", testSizes},
	{"names", testNames},
	{"links", testLinks},
	{"rename and remove", testRenameRemove},
	{"attributes", testAttributes},
	{"sparse and truncate", testSparse},
	{"append and overwrite", testAppend},
	{"direct", testDirect},
	{"large directory", testLargeDirectory},
	{"fio 4k", testFio4K},
	{"fio 1m", testFio1M},
	{"tree", testTree},
	{"remount", testRemount},
}

// TestNFS lets the kernel's NFSv3 client work on one server over RDMA and, as
// control and for a shorter time, over TCP.
func TestNFS(t *testing.T) {
	g := bootJudged(t, guest.Options{})
	g.UseRDMA(t, guest.SIWPlain)
	var server nfsServer
	switch *serverFlag {
	case "rdmad":
		r := startRdmad(t, g.ShareDir)
		t.Run("printed", func(t *testing.T) { testPrintedMount(t, g, r) })
		server = r
	case "knfsd":
		g.ServeNFS(t)
		server = knfsd{g}
	default:
		t.Fatalf("-server %s: want rdmad or knfsd", *serverFlag)
	}
	t.Run(string(overRDMA), func(t *testing.T) { testTransport(t, g, server, overRDMA, matrix) })
	t.Run(string(overTCP), func(t *testing.T) { testTransport(t, g, server, overTCP, shortUnlessLong()) })
}

// TestOperation changes and breaks an rdmad while a kernel client works on it.
func TestOperation(t *testing.T) {
	g := bootJudged(t, guest.Options{}, killed)
	g.UseRDMA(t, guest.SIWPlain)
	r := startRdmad(t, g.ShareDir)
	t.Run("rdma", func(t *testing.T) {
		m := newMount(t, g, r, overRDMA)
		defer m.checkStats(t)
		t.Run("inline.send_max", func(t *testing.T) { testInlineLive(t, m.work(t, "inline"), r) })
		t.Run("inline and chunks", func(t *testing.T) { testPlacement(t, m.work(t, "placement"), r) })
		t.Run("credits.max", func(t *testing.T) { testCredits(t, m.work(t, "credits"), r) })
		t.Run("inline.receive_size", func(t *testing.T) { testReceiveSize(t, m.work(t, "receive"), r) })
		t.Run("remote_invalidation.use", func(t *testing.T) { testInvalidation(t, m.work(t, "invalidation"), r) })
		t.Run("crash", func(t *testing.T) { testCrash(t, m.work(t, "crash"), r.killAndStart) })
	})
	t.Run("churn", func(t *testing.T) { testChurn(t, g, r) })
	t.Run("tcp", func(t *testing.T) {
		m := newMount(t, g, r, overTCP)
		t.Run("crash", func(t *testing.T) { testCrash(t, m.work(t, "crash-tcp"), r.killAndStart) })
	})
}

func testTransport(t *testing.T, g *guest.Guest, server nfsServer, via transport, parts []part) {
	newMount(t, g, server, via).do(t, "", parts)
}

// do runs parts on a mount, in directories whose names begin with prefix.
func (m *mount) do(t *testing.T, prefix string, parts []part) {
	for i, p := range parts {
		name := fmt.Sprintf("%s%02d", prefix, i)
		if t.Run(p.name, func(t *testing.T) { p.test(t, m.work(t, name)) }) {
			m.client(t, "rm -rf "+name)
		} else {
			m.mustRespond(t)
		}
	}
}
