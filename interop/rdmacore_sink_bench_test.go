package interop

import (
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// sinkLoads are calls with read chunks, small and large.
var sinkLoads = []sideLoad{
	{"write 4 KiB, depth 1", "", sideData + "--rw=randwrite --bs=4k --iodepth=1", fioRate},
	{"write 4 KiB, depth 16", "", sideData + "--rw=randwrite --bs=4k --iodepth=16", fioRate},
	{"write 1 MiB, depth 1", "", sideData + "--rw=write --bs=1M --iodepth=1", fioRate},
	{"write 1 MiB, depth 4", "", sideData + "--rw=write --bs=1M --iodepth=4", fioRate},
}

// BenchmarkRdmacoreSinks compares rdmad on siw with rdmad on siw that plays an adapter whose
// RDMA Reads need registrations, in one guest and under the same kernel's client. Below
// 1 the registrations cost something.
func BenchmarkRdmacoreSinks(b *testing.B) {
	g := guest.Boot(b, guest.Options{MemoryMiB: 3072, Append: []string{"tsc=reliable"}})
	g.UseRDMA(b, guest.SIWPlain)
	buildGuestRdmad(b, g)
	pool, sinks := sideServers[1], sideServers[0]
	pool.name = "pool"
	sinks.name, sinks.provider = "registered", "rdmacore"
	sinks.text = withSinks(sinks.config())
	var mounts []*sideMount
	for _, s := range []guestServer{pool, sinks} {
		s.limits = rdmacoreLimits + unitEnvironment(b)
		mounts = append(mounts, newSideMount(b, g, startGuestRdmad(b, g, s), s.name))
	}
	compareMounts(b, mounts, sinkLoads)
}
