package echo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// The benchmarks compare whole stacks: the echo service over RPC-over-RDMA on
// soft-iWARP with the same service over ONC RPC on TCP. Client and server are
// in one process and talk over loopback. Rounds of both alternate within one
// run, so the ratio holds on any machine. A ratio above 1 means that
// RPC-over-RDMA is faster.

// BenchmarkNull makes NULL calls, depth at once.
func BenchmarkNull(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			compare(b, depth, 2000, 0, caller.null)
		})
	}
}

// BenchmarkRead reads 1 MiB per call, depth at once.
func BenchmarkRead(b *testing.B) {
	for _, depth := range []int{1, 8} {
		b.Run(fmt.Sprintf("size=1MiB/depth=%d", depth), func(b *testing.B) {
			compare(b, depth, 64, 1<<20, caller.read)
		})
	}
}

// BenchmarkWrite writes 1 MiB per call, depth at once.
func BenchmarkWrite(b *testing.B) {
	for _, depth := range []int{1, 8} {
		b.Run(fmt.Sprintf("size=1MiB/depth=%d", depth), func(b *testing.B) {
			compare(b, depth, 64, 1<<20, caller.write)
		})
	}
}

// compare times rounds of calls over RDMA and over TCP in turns. size is what a
// call moves, in bytes.
func compare(b *testing.B, depth, round, size int, call func(caller, context.Context) error) {
	rdma := newLoad(b, startRDMA(b), depth, size, call)
	tcp := newLoad(b, startTCP(b), depth, size, call)
	rdma.run(b, round) // credits, buffers and TCP windows grow
	tcp.run(b, round)
	var rdmaTime, tcpTime time.Duration
	for b.Loop() {
		rdmaTime += rdma.run(b, round)
		tcpTime += tcp.run(b, round)
	}
	unit, work := "calls/s", float64(b.N*round)
	if size > 0 {
		unit, work = "MB/s", work*float64(size)/1e6
	}
	b.ReportMetric(work/rdmaTime.Seconds(), "rdma-"+unit)
	b.ReportMetric(work/tcpTime.Seconds(), "tcp-"+unit)
	b.ReportMetric(tcpTime.Seconds()/rdmaTime.Seconds(), "ratio")
	b.ReportMetric(0, "ns/op") // of both together: says nothing
}

// load is depth goroutines' calls on one side.
type load struct {
	callers []caller
	call    func(caller, context.Context) error
}

func newLoad(b *testing.B, s side, depth, size int, call func(caller, context.Context) error) *load {
	l := &load{call: call}
	for range depth {
		c := s.caller(b, size)
		b.Cleanup(c.free)
		l.callers = append(l.callers, c)
	}
	return l
}

// run makes n calls and says how long they took.
func (l *load) run(b *testing.B, n int) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	failed := make(chan error, len(l.callers))
	start := time.Now()
	for _, c := range l.callers {
		go func() {
			for left.Add(-1) >= 0 {
				if err := l.call(c, b.Context()); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range l.callers {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}
