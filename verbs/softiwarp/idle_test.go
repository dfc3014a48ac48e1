package softiwarp

import (
	"runtime"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// BenchmarkIdleConnection makes connections that have moved data and are at
// rest. bytes/conn is the heap and stack of both ends, with queues for 64
// requests each way.
func BenchmarkIdleConnection(b *testing.B) {
	pa, pb := newProvider(b, Config{}), newProvider(b, Config{})
	before := memoryInUse()
	for range b.N {
		near, far := connectWith(b, pa, pb, testParam, testParam)
		far.recv(verbs.RecvWR{})
		near.send(verbs.SendWR{Flags: verbs.SendSignaled})
		near.succeed(1)
		far.succeed(1)
	}
	b.StopTimer()
	b.ReportMetric(float64(memoryInUse()-before)/float64(b.N), "bytes/conn")
}

func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools let go of what they hold
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
