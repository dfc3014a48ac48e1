package interop

import (
	"flag"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

var rdmacoreWhole = flag.Bool("rdmacore.whole", false, "all that provider rdmacore is tested by: the whole NFS matrix, RPC-over-RDMA from end to end, the sanitizer on siw too")

// rdmacoreParts are those parts of the matrix that stress the provider; the
// service itself is TestNFS's.
var rdmacoreParts = []part{
	{"sizes", testSizes},
	{"attributes", testAttributes},
	{"direct", testDirect},
	{"fio 4k", testFio4K},
	{"remount", testRemount},
}

// TestRdmacoreNFS lets the kernel's NFSv3 client work on an rdmad in its own
// guest, over provider rdmacore and the kernel's software adapters.
func TestRdmacoreNFS(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			buildGuestRdmad(t, g)
			r := startGuestRdmad(t, g, onlyServer)
			parts := rdmacoreParts
			if *rdmacoreWhole {
				parts = matrix
			}
			t.Run("mounted", func(t *testing.T) {
				m := newMount(t, g, r, overRDMA)
				m.do(t, "", parts)
				t.Run("remote invalidation", func(t *testing.T) { testInvalidation(t, m.work(t, "invalidation"), r) })
				if *rdmacoreWhole { // a part uses no reply chunks
					m.checkStats(t)
				}
			})
			r.stop(t)
			nothingLeft(t, g)
		})
	}
}
